{{/*
Names. A release name has at most 53 characters, a label value and most names 63.
*/}}
{{- define "sloserve.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "sloserve.fullname" -}}
{{- $name := include "sloserve.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/*
A child's name: the full name and a suffix, within 63 characters whatever the release is called.
Call with (list . "suffix").
*/}}
{{- define "sloserve.childName" -}}
{{- $suffix := index . 1 -}}
{{- $room := sub 62 (len $suffix) | int -}}
{{- printf "%s-%s" (include "sloserve.fullname" (index . 0) | trunc $room | trimSuffix "-") $suffix -}}
{{- end -}}

{{/*
A cluster-scoped name: two releases of one name in two namespaces must not share it.
Call with (list . "suffix"). ClusterRole names may be long (253).
*/}}
{{- define "sloserve.clusterName" -}}
{{- $root := index . 0 -}}
{{- printf "%s-%s-%s" $root.Release.Namespace (include "sloserve.fullname" $root) (index . 1) -}}
{{- end -}}

{{- define "sloserve.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "sloserve.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Labels of the operator's pod that never change: a Deployment's selector is immutable. */}}
{{- define "sloserve.selectorLabels" -}}
app.kubernetes.io/name: {{ include "sloserve.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "sloserve.labels" -}}
{{ include "sloserve.selectorLabels" . }}
app.kubernetes.io/part-of: slidingserve
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{/* The namespaces whose engines are watched, as a namespaceSelector. */}}
{{- define "sloserve.namespaceSelector" -}}
{{- if .Values.watchNamespaces -}}
matchNames: {{- toYaml .Values.watchNamespaces | nindent 2 }}
{{- else -}}
any: true
{{- end -}}
{{- end -}}

{{/*
One endpoint of a PodMonitor or ServiceMonitor. Call with a dict: port, monitor (the values), relabelings (ours).
*/}}
{{- define "sloserve.endpoint" -}}
- port: {{ .port }}
  path: /metrics
  {{- if .honorLabels }}
  # The operator's own labels namespace and name say which resource a series is about.
  honorLabels: true
  {{- end }}
  {{- with .monitor.interval }}
  interval: {{ . }}
  {{- end }}
  {{- with .monitor.scrapeTimeout }}
  scrapeTimeout: {{ . }}
  {{- end }}
  {{- with concat (default list .relabelings) .monitor.relabelings }}
  relabelings: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .monitor.metricRelabelings }}
  metricRelabelings: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* Metadata of a monitoring object. Call with (list . "suffix" .labels). */}}
{{- define "sloserve.monitorMetadata" -}}
{{- $root := index . 0 -}}
name: {{ include "sloserve.childName" (list $root (index . 1)) }}
namespace: {{ $root.Release.Namespace }}
labels: {{- mergeOverwrite (include "sloserve.labels" $root | fromYaml) (index . 2) | toYaml | nindent 2 }}
{{- end -}}

{{/* An image reference. Call with (list . .Values.images.operator). */}}
{{- define "sloserve.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- $path := $image.repository -}}
{{- with $root.Values.images.registry -}}
{{- $path = printf "%s/%s" (trimSuffix "/" .) $image.repository -}}
{{- end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $path $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $path (default $root.Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{/*
A value as the text that was written: every number of a values file is a float to Helm, which prints a million as 1e+06.
*/}}
{{- define "sloserve.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) (lt . 9e15) (gt . -9e15) -}}
{{- int64 . -}}
{{- else -}}
{{- toString . -}}
{{- end -}}
{{- end -}}
