#!/bin/sh
# Makes the data folder of a container, with the keys that all processes share, and starts a command.
set -eu
umask 077
mkdir -p "$CRUSH_DATA_DIR"
chmod 700 "$CRUSH_DATA_DIR"
for key in secret.key django.key; do
    if [ -e "/run/secrets/$key" ]; then
        install -m 600 "/run/secrets/$key" "$CRUSH_DATA_DIR/$key"
    fi
done
umask 022 # for what agents write
exec crush-server "$@"
