{{- define "kubejournal.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "kubejournal.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "kubejournal.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "kubejournal.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- /* Of roles outside the release's namespace, where another release of this name may have some too. */ -}}
{{- define "kubejournal.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace (include "kubejournal.fullname" .) -}}
{{- end }}

{{- define "kubejournal.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kubejournal.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "kubejournal.labels" -}}
{{ include "kubejournal.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "kubejournal.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "kubejournal.fullname" .) -}}
{{- else -}}
{{- required "serviceAccount.name: name the account, or let the chart make one with serviceAccount.create" .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}

{{- define "kubejournal.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end }}

{{- /* Whether journal and position outlive the pod: "true" or "". */ -}}
{{- define "kubejournal.persistent" -}}
{{- if has .Values.mode (list "daemonset" "statefulset") -}}
true
{{- else if hasKey .Values.persistence "enabled" -}}
{{- if .Values.persistence.enabled -}}true{{- end -}}
{{- else if or (eq .Values.mode "deployment") .Values.persistence.existingClaim -}}
true
{{- end -}}
{{- end }}

{{- /* The config's leaderElection. */ -}}
{{- define "kubejournal.election" -}}
{{- if eq .Values.mode "statefulset" -}}
{{ merge (dict) (default (dict) .Values.config.leaderElection) (dict "leaseName" (include "kubejournal.fullname" .)) | toYaml }}
{{- end -}}
{{- end }}

{{- /* The names of the Leases: of each shard one. */ -}}
{{- define "kubejournal.leases" -}}
{{- $root := . -}}
{{- with include "kubejournal.election" . | fromYaml -}}
{{- $name := .leaseName -}}
{{- $shards := int $root.Values.shards -}}
{{- if gt $shards 1 -}}
{{- range $i := until $shards }}
- {{ printf "%s-%d-of-%d" $name $i $shards }}
{{- end -}}
{{- else }}
- {{ $name }}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* The config of a preset, "" for none. */ -}}
{{- define "kubejournal.preset" -}}
{{- with .Values.preset -}}
{{ $.Files.Get (printf "files/%s.yaml" .) }}
{{- end -}}
{{- end }}

{{- /* The config's output: what it keeps fits the volume. */ -}}
{{- define "kubejournal.output" -}}
{{- $output := deepCopy .Values.config.output -}}
{{- if not (or (eq $output.path "-") (hasKey $output "maxTotalSize")) -}}
{{- $size := "1GiB" -}}
{{- if ne .Values.mode "daemonset" -}}
{{- $size = printf "%.0fMiB" (divf (include "kubejournal.bytes" .Values.persistence.size) 1048576 | mulf 0.8 | floor) -}}
{{- end -}}
{{- $_ := set $output "maxTotalSize" $size -}}
{{- end -}}
{{- with include "kubejournal.preset" . | fromYaml -}}
{{- if not (hasKey $output "maxAge") -}}{{- $_ := set $output "maxAge" .output.maxAge -}}{{- end -}}
{{- end -}}
{{ toYaml $output }}
{{- end }}

{{- /* The entries of the config: those of the values, else of the preset, else what fits the mode. */ -}}
{{- define "kubejournal.resources" -}}
{{- if .Values.config.resources -}}
{{ toYaml .Values.config.resources }}
{{- else if .Values.preset -}}
{{ (include "kubejournal.preset" . | fromYaml).resources | toYaml }}
{{- else if eq .Values.mode "daemonset" -}}
- resource: pods
  fieldSelector: spec.nodeName=$(NODE_NAME)
{{- else if eq .Values.mode "sidecar" -}}
{{- range list "pods" "configmaps" "deployments.apps" }}
- resource: {{ . }}
  namespaces: [$(POD_NAMESPACE)]
{{- end }}
{{- else -}}
- deployments.apps
- statefulsets.apps
- daemonsets.apps
- jobs.batch
- cronjobs.batch
- pods
- services
- ingresses.networking.k8s.io
- configmaps
- nodes
- namespaces
- events
{{- end }}
{{- end }}
