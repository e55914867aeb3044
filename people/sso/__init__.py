"""Sign-in by OpenID Connect, passkeys and second factors, with ``django-allauth``.

Only where ``CRUSH_SSO`` is set: nothing else may import a module of this room.
"""
