{{- /*
The rights that the config's entries need, as YAML: rules by namespace, "" for all of them. They are those of
kubejournal rbac; a test holds them against it. Names are looked up in files/builtin.txt, the program's own table of
Kubernetes' resources: resource.version.group, kind, scope, short names.
*/ -}}
{{- define "kubejournal.rights" -}}
{{- $root := . -}}
{{- $rules := dict "" (list (dict "apiGroups" (list "") "resources" (list "namespaces") "resourceNames" (list "kube-system") "verbs" (list "get"))) -}}
{{- $table := list -}}
{{- $groups := dict -}}
{{- range splitList "\n" (.Files.Get "files/builtin.txt") -}}
  {{- $fields := splitList " " . -}}
  {{- if ge (len $fields) 3 -}}
    {{- $gvr := splitn "." 3 (index $fields 0) -}}
    {{- $names := list $gvr._0 (index $fields 1 | lower) -}}
    {{- if gt (len $fields) 3 -}}{{- $names = concat $names (splitList "," (index $fields 3)) -}}{{- end -}}
    {{- $table = append $table (dict "names" $names "resource" $gvr._0 "group" $gvr._2 "scope" (index $fields 2)) -}}
    {{- $_ := set $groups $gvr._2 true -}}
  {{- end -}}
{{- end -}}
{{- $custom := false -}}
{{- range $i, $entry := include "kubejournal.resources" . | fromYamlArray -}}
  {{- if kindIs "string" $entry -}}{{- $entry = dict "resource" $entry -}}{{- end -}}
  {{- /* The name: resource, resource.group or resource.version.group. */ -}}
  {{- $parts := splitn "." 2 $entry.resource -}}
  {{- $name := lower $parts._0 -}}
  {{- $hasGroup := contains "." $entry.resource -}}
  {{- $group := default "" $parts._1 -}}
  {{- if regexMatch "^v[0-9]+((alpha|beta)[0-9]+)?[.]" $group -}}{{- $group = regexReplaceAll "^[^.]*[.]" $group "" -}}{{- end -}}
  {{- if hasKey $entry "group" -}}{{- $hasGroup = true -}}{{- $group = $entry.group -}}{{- end -}}
  {{- /* What it comes to. */ -}}
  {{- $plural := "" -}}{{- $scope := "namespaced" -}}
  {{- if eq $name "*" -}}
    {{- $plural = "*" -}}
  {{- else -}}
    {{- range $table -}}
      {{- if and (not $plural) (has $name .names) (or (not $hasGroup) (eq $group "*") (eq $group .group)) -}}
        {{- $plural = .resource -}}{{- $scope = .scope -}}
        {{- if not $hasGroup -}}{{- $group = .group -}}{{- end -}}
      {{- end -}}
    {{- end -}}
  {{- end -}}
  {{- if and (not $plural) (not $hasGroup) -}}
    {{- fail (printf "config.resources[%d]: %q is none of Kubernetes' own resources; write its name in full, e.g. %s.example.com" $i $entry.resource $name) -}}
  {{- end -}}
  {{- $plural = default $name $plural -}}
  {{- if or (eq $plural "*") (eq $group "*") (not (hasKey $groups $group)) -}}{{- $custom = true -}}{{- end -}}
  {{- $rule := dict "apiGroups" (list $group) "resources" (list $plural) "verbs" (list "list" "watch") -}}
  {{- $selector := default (dict) $root.Values.config.defaults | dig "fieldSelector" "" -}}
  {{- if hasKey $entry "fieldSelector" -}}{{- $selector = $entry.fieldSelector -}}{{- end -}}
  {{- $one := regexFind "(^|,)metadata[.]name==?[^,=!$()]+(,|$)" (default "" $selector) -}}
  {{- if $one -}}{{- $_ := set $rule "resourceNames" (list (regexReplaceAll ".*=|," $one "")) -}}{{- end -}}
  {{- /* Where. */ -}}
  {{- $namespaces := default (list) $entry.namespaces -}}
  {{- if or (eq $scope "cluster") (not $namespaces) -}}{{- $namespaces = list "" -}}{{- end -}}
  {{- range $namespaces -}}
    {{- $namespace := replace "$(POD_NAMESPACE)" $root.Release.Namespace . -}}
    {{- range $root.Values.extraEnv -}}{{- if .value -}}{{- $namespace = replace (printf "$(%s)" .name) .value $namespace -}}{{- end -}}{{- end -}}
    {{- if contains "$(" $namespace -}}
      {{- fail (printf "config.resources[%d].namespaces: %s is not known here; give it a value in extraEnv, or set rbac.create to false and grant the rights yourself" $i $namespace) -}}
    {{- end -}}
    {{- $before := default (list) (get $rules $namespace) -}}
    {{- if not (has $rule $before) -}}{{- $_ := set $rules $namespace (append $before $rule) -}}{{- end -}}
  {{- end -}}
{{- end -}}
{{- if $custom -}}
  {{- $definitions := dict "apiGroups" (list "apiextensions.k8s.io") "resources" (list "customresourcedefinitions") "verbs" (list "list" "watch") -}}
  {{- $_ := set $rules "" (append (get $rules "") $definitions) -}}
{{- end -}}
{{- with include "kubejournal.leases" . | fromYamlArray -}}
  {{- $election := default dict $root.Values.config.leaderElection -}}
  {{- $namespace := $election.leaseNamespace | default $root.Release.Namespace -}}
  {{- $leases := dict "apiGroups" (list "coordination.k8s.io") "resources" (list "leases") -}}
  {{- /* A right cannot name what does not exist yet. */ -}}
  {{- $create := merge (dict "verbs" (list "create")) $leases -}}
  {{- $hold := merge (dict "resourceNames" . "verbs" (list "get" "update")) $leases -}}
  {{- $_ := set $rules $namespace (concat (default (list) (get $rules $namespace)) (list $create $hold)) -}}
{{- end -}}
{{- $_ := set $rules "" (concat (get $rules "") .Values.rbac.extraRules) -}}
{{ toYaml $rules }}
{{- end }}
