{{- define "mainspring.labels" -}}
app.kubernetes.io/name: mainspring
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "mainspring.about" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "mainspring.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "mainspring.pod" -}}
serviceAccountName: {{ .Release.Name }}-mainspring
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "mainspring.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "mainspring.env" -}}
- name: MAINSPRING_URI
  valueFrom:
    secretKeyRef: {name: {{ .Values.secretName }}, key: uri}
- name: MAINSPRING_KEYS
  valueFrom:
    secretKeyRef: {name: {{ .Values.secretName }}, key: keys, optional: true}
- name: MAINSPRING_SMTP_URL
  valueFrom:
    secretKeyRef: {name: {{ .Values.secretName }}, key: smtp-url, optional: true}
- name: MAINSPRING_LOG_FORMAT
  value: json
{{- range $name, $value := .Values.env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
