{{- /* Faults that the schema cannot see. */ -}}
{{- define "kubejournal.check" -}}
{{- if and .Values.monitoring.podMonitor.enabled (not .Values.config.listen) -}}
{{- fail "monitoring.podMonitor.enabled: there is nothing to scrape, as config.listen is empty; set it to \":8080\"" -}}
{{- end -}}
{{- if and (eq .Values.mode "statefulset") (or .Values.persistence.existingClaim (eq (toString .Values.persistence.enabled) "false")) -}}
{{- fail "persistence: each replica of a statefulset has a volume of its own; leave existingClaim and enabled out" -}}
{{- end -}}
{{- if and .Values.config.leaderElection (ne .Values.mode "statefulset") -}}
{{- fail "config.leaderElection: only the mode statefulset has replicas of which one writes" -}}
{{- end -}}
{{- with lookup "v1" "ConfigMap" .Release.Namespace (include "kubejournal.fullname" .) -}}
{{- $was := dig "kubejournal.yaml" "" .data | fromYaml | dig "shard" "count" 1 | int -}}
{{- $is := ternary (int $.Values.shards) 1 (eq $.Values.mode "statefulset") -}}
{{- if ne $was $is -}}
{{- fail (printf "shards: this release has %d; a change from %d to %d would lose what happens meanwhile: install another release beside it" $was $was $is) -}}
{{- end -}}
{{- end -}}
{{- range $key, $path := dict "output" .Values.config.output.path "checkpoint" .Values.config.checkpoint.path -}}
{{- if not (or (hasPrefix "/var/lib/kubejournal/" $path) (and (eq $key "output") (eq $path "-")) (and (eq $key "checkpoint") (eq $path ""))) -}}
{{- fail (printf "config.%s.path: %q is on the root file system, which is read-only; name a file in /var/lib/kubejournal" $key $path) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "kubejournal.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "kubejournal.container" -}}
name: kubejournal
image: {{ include "kubejournal.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- if eq .Values.mode "sidecar" }}
# A sidecar: it starts before the program and ends after it.
restartPolicy: Always
{{- end }}
args: [run, --config, /etc/kubejournal/kubejournal.yaml]
env:
  {{- if eq .Values.config.checkpoint.path "" }}
  # The image has no /tmp; what is known must be somewhere while it runs.
  - name: TMPDIR
    value: /var/lib/kubejournal
  {{- end }}
  {{- with .Values.goMemoryLimit }}
  - name: GOMEMLIMIT
    value: {{ . | quote }}
  {{- end }}
  - name: POD_NAMESPACE
    valueFrom:
      fieldRef: {fieldPath: metadata.namespace}
  - name: NODE_NAME
    valueFrom:
      fieldRef: {fieldPath: spec.nodeName}
  {{- if and .Shard (gt (int .Values.shards) 1) }}
  - name: SHARD
    value: {{ .Shard | quote }}
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.config.listen }}
ports:
  - name: http
    containerPort: {{ regexFind "[0-9]+$" . }}
# A start waits for the API server, and reads back the end of the journal.
startupProbe:
  httpGet: {path: /livez, port: http}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: http}
  periodSeconds: 20
  timeoutSeconds: 5
{{- if ne $.Values.mode "sidecar" }}
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
{{- else }}
# No readinessProbe: a first sync must not take the program beside it out of its service.
{{- end }}
{{- end }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  {{- include "kubejournal.containerSecurity" . | nindent 2 }}
volumeMounts:
  - name: state
    mountPath: /var/lib/kubejournal
  # The folder and not the file, which would stay as it was when the ConfigMap changes.
  - name: config
    mountPath: /etc/kubejournal
    readOnly: true
  - name: token
    mountPath: /var/run/secrets/kubernetes.io/serviceaccount
    readOnly: true
{{- end }}

{{- /* The pod's template. */ -}}
{{- define "kubejournal.pod" -}}
{{- include "kubejournal.check" . -}}
metadata:
  labels:
    {{- include "kubejournal.selectorLabels" . | nindent 4 }}
    {{- with .Shard }}
    kubejournal/shard: {{ . | quote }}
    {{- end }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    {{- $log := default dict .Values.config.log }}
    # Of what a daemon that runs does not take over: an edit of that makes a new pod, one of the rest does not.
    checksum/needs-restart: {{ list .Values.config.output.path .Values.config.checkpoint.path $log.format .Values.config.leaderElection | toJson | sha256sum }}
    kubectl.kubernetes.io/default-container: {{ ternary .Values.sidecar.container.name "kubejournal" (eq .Values.mode "sidecar") }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "kubejournal.serviceAccountName" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    {{- if ne .Values.mode "daemonset" }}
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    {{- end }}
    seccompProfile:
      type: RuntimeDefault
  {{- if eq .Values.mode "sidecar" }}
  initContainers:
    - {{- include "kubejournal.container" . | nindent 6 }}
  {{- else if and (eq .Values.mode "daemonset") .Values.node.prepare }}
  initContainers:
    - name: prepare-node
      image: {{ .Values.node.prepareImage }}
      command: [chown, "65532:65532", /var/lib/kubejournal]
      resources:
        requests: {cpu: 10m, memory: 8Mi}
        limits: {memory: 16Mi}
      securityContext:
        runAsNonRoot: false
        runAsUser: 0
        runAsGroup: 0
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
          add: [CHOWN]
      volumeMounts:
        - name: state
          mountPath: /var/lib/kubejournal
  {{- end }}
  containers:
    {{- if eq .Values.mode "sidecar" }}
    {{- $container := deepCopy .Values.sidecar.container }}
    {{- $given := default dict $container.securityContext }}
    {{- $security := merge (deepCopy $given) (include "kubejournal.containerSecurity" . | fromYaml) }}
    {{- /* merge takes a false for nothing. */ -}}
    {{- range $key, $value := $given }}{{- if kindIs "bool" $value }}{{- $_ := set $security $key $value }}{{- end }}{{- end }}
    {{- $_ := set $container "securityContext" $security }}
    {{- $journal := dict "name" "state" "mountPath" "/var/lib/kubejournal" "readOnly" true }}
    {{- $_ := set $container "volumeMounts" (append (default list $container.volumeMounts) $journal) }}
    - {{- toYaml $container | nindent 6 }}
    {{- else }}
    - {{- include "kubejournal.container" . | nindent 6 }}
    {{- end }}
  volumes:
    {{- if ne .Values.mode "statefulset" }}
    - name: state
      {{- if eq .Values.mode "daemonset" }}
      hostPath:
        path: {{ .Values.node.path }}
        # A folder that the kubelet makes belongs to root.
        type: {{ ternary "DirectoryOrCreate" "Directory" .Values.node.prepare }}
      {{- else if include "kubejournal.persistent" . }}
      persistentVolumeClaim:
        claimName: {{ .Values.persistence.existingClaim | default (include "kubejournal.fullname" .) }}
      {{- else }}
      # WARNING: goes with its pod, and with it the position and the journal.
      emptyDir:
        sizeLimit: {{ .Values.persistence.size }}
      {{- end }}
    {{- end }}
    - name: config
      configMap:
        name: {{ include "kubejournal.fullname" . }}
    - name: token
      projected:
        sources:
          - serviceAccountToken:
              path: token
              expirationSeconds: 3600
          - configMap:
              name: kube-root-ca.crt
              items:
                - {key: ca.crt, path: ca.crt}
          - downwardAPI:
              items:
                - path: namespace
                  fieldRef: {fieldPath: metadata.namespace}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Shard }}
  # A node that fails takes one replica of a shard with it.
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "kubejournal.selectorLabels" $ | nindent 10 }}
          kubejournal/shard: {{ . | quote }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if hasKey .Values "tolerations" }}
  tolerations:
    {{- toYaml .Values.tolerations | nindent 4 }}
  {{- else if eq .Values.mode "daemonset" }}
  # Every node has pods.
  tolerations:
    - operator: Exists
  {{- end }}
{{- end }}
