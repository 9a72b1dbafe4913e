{{- define "cairn.labels" -}}
app.kubernetes.io/name: cairn
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end }}

{{- define "cairn.allLabels" -}}
{{ include "cairn.labels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "cairn.image" -}}
{{ .root.Values.image.registry }}/{{ .name }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{- define "cairn.url" -}}
http://{{ .root.Release.Name }}-{{ .name }}:{{ .port }}
{{- end }}

{{/* Every process: its port, its part of the values, plain variables, and keys of the Secret (required, optional). */}}
{{- define "cairn.processes" -}}
{{- $repositories := list "GITHUB_TOKEN" "GITLAB_TOKEN" "GITEA_TOKEN" }}
{{- $webhooks := list }}
{{- range list "GITHUB_WEBHOOK_SECRET" "GITLAB_WEBHOOK_TOKEN" "JIRA_WEBHOOK_SECRET" "ALERTMANAGER_TOKEN" "PAGERDUTY_WEBHOOK_SECRET" }}
{{- $webhooks = concat $webhooks (list . (printf "%s_PREVIOUS" .)) }}
{{- end }}
{{- $embedder := include "cairn.url" (dict "root" . "name" "embedder" "port" 8001) }}
{{- $retriever := include "cairn.url" (dict "root" . "name" "retriever" "port" 8002) }}
{{- $answerer := include "cairn.url" (dict "root" . "name" "answerer" "port" 8003) }}
{{- $consumer := include "cairn.url" (dict "root" . "name" "ingest-consumer" "port" 9101) }}
{{- $kafka := .Values.kafka.bootstrapServers }}
{{- dict
  "gateway" (dict "port" 8000 "values" .Values.gateway
    "env" (dict "KAFKA_BOOTSTRAP_SERVERS" $kafka "EMBEDDER_URL" $embedder "RETRIEVER_URL" $retriever "ANSWERER_URL" $answerer
      "INGEST_CONSUMER_URLS" $consumer "CAIRN_PUBLIC_URL" .Values.publicUrl "CAIRN_URL" "http://127.0.0.1:8000")
    "required" (list "MONGO_URI" "REDIS_URL" "CAIRN_BOOTSTRAP_API_KEY" "CONSOLE_SECRET" "SERVICE_TOKEN") "optional" (concat $repositories $webhooks))
  "embedder" (dict "port" 8001 "values" .Values.embedder "env" dict
    "required" (list "REDIS_URL" "SERVICE_TOKEN") "optional" (list "EMBEDDINGS_API_KEY"))
  "retriever" (dict "port" 8002 "values" .Values.retriever "env" (dict "EMBEDDER_URL" $embedder)
    "required" (list "PG_DSN" "REDIS_URL" "SERVICE_TOKEN") "optional" list)
  "answerer" (dict "port" 8003 "values" .Values.answerer "env" (dict "RETRIEVER_URL" $retriever)
    "required" (list "PG_DSN" "REDIS_URL" "SERVICE_TOKEN") "optional" (list "LLM_API_KEY"))
  "ingest-consumer" (dict "port" 9101 "values" .Values.consumer
    "env" (dict "KAFKA_BOOTSTRAP_SERVERS" $kafka "EMBEDDER_URL" $embedder)
    "required" (list "PG_DSN" "MONGO_URI" "SERVICE_TOKEN") "optional" (concat $repositories (list "LLM_API_KEY")))
  | toJson }}
{{- end }}

{{- define "cairn.env" -}}
{{- $root := .root }}
{{- $plain := merge dict (.values.env | default dict) .env $root.Values.env (dict "LOG_LEVEL" $root.Values.logLevel) }}
{{- range $name, $value := $plain }}
{{- if $value }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}
{{- range .required }}
- {name: {{ . }}, valueFrom: {secretKeyRef: {name: {{ $root.Values.secret }}, key: {{ . }}}}}
{{- end }}
{{- range has "SERVICE_TOKEN" .required | ternary (append .optional "SERVICE_TOKEN_PREVIOUS") .optional }}
- {name: {{ . }}, valueFrom: {secretKeyRef: {name: {{ $root.Values.secret }}, key: {{ . }}, optional: true}}}
{{- end }}
{{- end }}

{{/* What every pod has: no root, nothing to write on but /tmp, no token of the API server. */}}
{{- define "cairn.podSecurity" -}}
serviceAccountName: {{ .root.Release.Name }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- end }}

{{- define "cairn.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}
