{{- /* Faults that the schema cannot see. */ -}}
{{- define "kubejournal.check" -}}
{{- if and .Values.monitoring.podMonitor.enabled (not .Values.config.listen) -}}
{{- fail "monitoring.podMonitor.enabled: there is nothing to scrape, as config.listen is empty; set it to \":8080\"" -}}
{{- end -}}
{{- if and (eq .Values.mode "statefulset") (or .Values.persistence.existingClaim (eq (toString .Values.persistence.enabled) "false")) -}}
{{- fail "persistence: each replica of a statefulset has a volume of its own; leave existingClaim and enabled out" -}}
{{- end -}}
{{- if and .Values.preset .Values.config.resources -}}
{{- fail "preset: config.resources says what is journalled; leave one of the two out" -}}
{{- end -}}
{{- if and .Values.preset (has .Values.mode (list "daemonset" "sidecar")) -}}
{{- fail (printf "preset: each pod of a %s would journal all of it; use the mode deployment or statefulset" .Values.mode) -}}
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
{{- with .Values.config.listen -}}
{{- $name := include "kubejournal.fullname" $ -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "fullnameOverride: %q cannot be the name of a Service; set one that begins with a letter and has only lower-case letters, digits and -" $name) -}}
{{- end -}}
{{- if not (regexMatch "^(0[.]0[.]0[.]0|\\[::\\])?:[1-9][0-9]{0,4}$" .) -}}
{{- fail (printf "config.listen: the kubelet cannot reach %q, and would restart the pod for that; write \":8080\" and say with networkPolicy.from who may ask, or \"\" for no port and no probes" .) -}}
{{- end -}}
{{- end -}}
{{- if eq .Values.mode "statefulset" -}}
{{- include "kubejournal.checkStatefulSets" . -}}
{{- else if has .Values.mode (list "deployment" "sidecar") -}}
{{- include "kubejournal.checkVolume" . -}}
{{- end -}}
{{- range $key, $path := dict "output" .Values.config.output.path "checkpoint" .Values.config.checkpoint.path -}}
{{- if not (or (hasPrefix "/var/lib/kubejournal/" $path) (and (eq $key "output") (eq $path "-")) (and (eq $key "checkpoint") (eq $path ""))) -}}
{{- fail (printf "config.%s.path: %q is on the root file system, which is read-only; name a file in /var/lib/kubejournal" $key $path) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* The names of the StatefulSets, of each shard one. */ -}}
{{- define "kubejournal.statefulSets" -}}
{{- $name := include "kubejournal.fullname" . -}}
{{- $shards := int .Values.shards -}}
{{- range $shard := until $shards }}
- {{ ternary (printf "%s-%d" $name $shard) $name (gt $shards 1) }}
{{- end -}}
{{- end }}

{{- /* What Kubernetes refuses only later, or without saying what to do: long names, and other volumes for a StatefulSet. */ -}}
{{- define "kubejournal.checkStatefulSets" -}}
{{- $p := .Values.persistence -}}
{{- range $name := include "kubejournal.statefulSets" . | fromYamlArray -}}
{{- if gt (len $name) 52 -}}
{{- fail (printf "fullnameOverride: the StatefulSet %s would have no pods, as their labels have its name and 11 characters more in at most 63; set a name of at most %d" $name (sub 52 (sub (len $name) (len (include "kubejournal.fullname" $))))) -}}
{{- end -}}
{{- with lookup "apps/v1" "StatefulSet" $.Release.Namespace $name -}}
{{- $was := (first .spec.volumeClaimTemplates).spec -}}
{{- $advice := printf "a StatefulSet keeps its volumes as they are; change the claims state-%s-N yourself, run kubectl -n %s delete statefulset %s --cascade=orphan, which leaves the pods, and upgrade again" $name $.Release.Namespace $name -}}
{{- if ne (include "kubejournal.bytes" $was.resources.requests.storage) (include "kubejournal.bytes" $p.size) -}}
{{- fail (printf "persistence.size: this release has %s and not %s; %s" $was.resources.requests.storage $p.size $advice) -}}
{{- end -}}
{{- $class := default "" $p.storageClassName -}}
{{- if ne (default "" $was.storageClassName) $class -}}
{{- fail (printf "persistence.storageClassName: this release has %q and not %q; %s" (default "" $was.storageClassName) $class $advice) -}}
{{- end -}}
{{- if ne (toJson $was.accessModes) (toJson $p.accessModes) -}}
{{- fail (printf "persistence.accessModes: this release has %v and not %v; %s" $was.accessModes $p.accessModes $advice) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* A claim can grow, where its class allows that, and change in nothing else. */ -}}
{{- define "kubejournal.checkVolume" -}}
{{- $p := .Values.persistence -}}
{{- if and (include "kubejournal.persistent" .) (not $p.existingClaim) -}}
{{- with lookup "v1" "PersistentVolumeClaim" .Release.Namespace (include "kubejournal.fullname" .) -}}
{{- $advice := "restore that value, or move the journal to a claim of your own and name it in persistence.existingClaim" -}}
{{- if lt (include "kubejournal.bytes" $p.size | float64) (include "kubejournal.bytes" .spec.resources.requests.storage | float64) -}}
{{- fail (printf "persistence.size: the volume of this release has %s and cannot shrink to %s; %s" .spec.resources.requests.storage $p.size $advice) -}}
{{- end -}}
{{- if and $p.storageClassName (ne (default "" .spec.storageClassName) $p.storageClassName) -}}
{{- fail (printf "persistence.storageClassName: the volume of this release has %q, which cannot change to %q; %s" (default "" .spec.storageClassName) $p.storageClassName $advice) -}}
{{- end -}}
{{- if ne (toJson .spec.accessModes) (toJson $p.accessModes) -}}
{{- fail (printf "persistence.accessModes: the volume of this release has %v, which cannot change to %v; %s" .spec.accessModes $p.accessModes $advice) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* A quantity such as 5Gi as a number. */ -}}
{{- define "kubejournal.bytes" -}}
{{- $k := 1000.0 -}}{{- if hasSuffix "i" . -}}{{- $k = 1024.0 -}}{{- end -}}
{{- $bytes := regexFind "^[0-9.]+" . | float64 -}}
{{- $unit := regexFind "[kKMGTPE]" . | upper -}}
{{- if $unit -}}
{{- range until (regexFind (printf "^.*%s" $unit) "KMGTPE" | len) -}}{{- $bytes = mulf $bytes $k -}}{{- end -}}
{{- end -}}
{{- printf "%.0f" $bytes -}}
{{- end }}

{{- /*
The pod's securityContext. OpenShift gives each namespace users of its own and refuses others: there the chart's defaults
are left out. The kubelet applies no fsGroup to a folder of the node, and such pods are none of that policy's either.
*/ -}}
{{- define "kubejournal.podSecurity" -}}
{{- $security := deepCopy (default dict .Values.podSecurityContext) -}}
{{- if eq .Values.mode "daemonset" -}}
{{- $security = omit $security "fsGroup" "fsGroupChangePolicy" -}}
{{- else if .Capabilities.APIVersions.Has "security.openshift.io/v1" -}}
{{- range $key := list "runAsUser" "runAsGroup" "fsGroup" -}}
{{- if eq (get $security $key | toString) "65532" -}}{{- $security = omit $security $key -}}{{- end -}}
{{- end -}}
{{- end -}}
{{ toYaml $security }}
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
  priorityClassName: {{ . | quote }}
  {{- end }}
  securityContext:
    {{- include "kubejournal.podSecurity" . | nindent 4 }}
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
        claimName: {{ .Values.persistence.existingClaim | default (include "kubejournal.fullname" .) | quote }}
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
  {{- else }}
  {{- if eq .Values.mode "daemonset" }}
  # Nodes that run one pod each, or none but those of a cloud, take no daemon set's.
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
          - matchExpressions:
              - {key: eks.amazonaws.com/compute-type, operator: NotIn, values: [fargate]}
              - {key: type, operator: NotIn, values: [virtual-kubelet]}
  {{- end }}
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
