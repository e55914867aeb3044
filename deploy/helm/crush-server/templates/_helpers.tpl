{{- define "crush.labels" -}}
app.kubernetes.io/name: crush-server
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "crush.selector" -}}
app.kubernetes.io/name: crush-server
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "crush.secret" -}}
{{ required "existingSecret is required: see docs/deploy.md" .Values.existingSecret }}
{{- end }}

{{- define "crush.claim" -}}
{{ .Values.work.existingClaim | default (printf "%s-work" .Release.Name) }}
{{- end }}

{{- define "crush.podSecurity" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "crush.env" -}}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef: {name: {{ include "crush.secret" . }}, key: DATABASE_URL}
- name: REDIS_URL
  valueFrom:
    secretKeyRef: {name: {{ include "crush.secret" . }}, key: REDIS_URL}
{{- end }}

{{- define "crush.envFrom" -}}
- configMapRef:
    name: {{ .Release.Name }}-settings
{{- range .Values.extraSecrets }}
- secretRef:
    name: {{ . }}
{{- end }}
{{- end }}

{{- define "crush.mounts" -}}
- name: data
  mountPath: /var/lib/crush-server
- name: keys
  mountPath: /run/secrets
  readOnly: true
{{- end }}

{{- define "crush.workMount" -}}
- name: work
  mountPath: {{ .Values.work.path }}
{{- end }}

{{- define "crush.workEnv" -}}
- name: CRUSH_ROOTS
  value: {{ printf "%s=%s" .Values.work.root .Values.work.path | quote }}
{{- end }}

{{- define "crush.volumes" -}}
- name: data
  emptyDir: {}
- name: keys
  secret:
    secretName: {{ include "crush.secret" . }}
    defaultMode: 0440
    items:
      - {key: secret.key, path: secret.key}
      - {key: django.key, path: django.key}
      - {key: admin-token, path: admin-token}
      - {key: metrics-token, path: metrics-token}
{{- end }}

{{- define "crush.workVolume" -}}
- name: work
  persistentVolumeClaim:
    claimName: {{ include "crush.claim" . }}
{{- end }}

{{- define "crush.probes" -}}
# A start migrates nothing, but reads the state of the database.
startupProbe:
  httpGet: &alive
    path: /healthz
    port: monitor
    httpHeaders: [{name: Host, value: localhost}]
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: *alive
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet:
    path: /readyz
    port: monitor
    httpHeaders: [{name: Host, value: localhost}]
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}
