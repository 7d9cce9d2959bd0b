{{- define "lockstep.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "lockstep.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "lockstep.name" .) -}}
{{- end -}}

{{- define "lockstep.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}

{{- define "lockstep.selector" -}}
app.kubernetes.io/name: lockstep
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "lockstep.labels" -}}
{{ include "lockstep.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: lockstep
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* Permissions for the objects of jobs: cluster-wide, or in the namespace that it watches. */}}
{{- define "lockstep.jobRules" -}}
- apiGroups: [lockstep.dev]
  resources: [trainingjobs]
  verbs: [list, watch, delete]  # delete: ttlSecondsAfterFinished
- apiGroups: [lockstep.dev]
  resources: [trainingjobs/status]
  verbs: [update]
- apiGroups: [lockstep.dev]
  resources: [trainingjobs/finalizers]
  verbs: [update]  # to be named as the owner that its children block
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]  # patch: to move a gated pod to another node, and to open its gate
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, update]  # update: to take over the Service of a deleted job
- apiGroups: [""]
  resources: [configmaps]  # the record of a job's generations
  verbs: [get, create, update]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}
