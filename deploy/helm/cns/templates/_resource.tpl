{{/* The variables of all pods: the kustomization's, those that follow from other values, the user's. */}}
{{- define "cns.config" -}}
{{- $name := eq .Values.mode "cluster" | ternary "base" "single" }}
{{- $config := dict }}
{{- range (index (.Files.Get (printf "kubernetes/%s/kustomization.yaml" $name) | fromYaml).configMapGenerator 0).literals }}
{{- $pair := splitn "=" 2 . }}
{{- $_ := set $config $pair._0 $pair._1 }}
{{- end }}
{{- $scheme := not (empty .Values.tls.secretName) | ternary "https" "http" }}
{{- $service := eq .Values.mode "cluster" | ternary "cns-api" "cns" }}
{{- $_ := set $config "CNS_PUBLIC_URL" (printf "%s://%s.%s.svc:6059" $scheme $service .Release.Namespace) }}
{{- if .Values.tls.secretName }}
{{- $_ := mergeOverwrite $config (dict "CNS_TLS_CERT" "/tls/tls.crt" "CNS_TLS_KEY" "/tls/tls.key") }}
{{- end }}
{{- /* YAML's `off` is false, and its numbers are floats: 1e+06 */}}
{{- range $key, $value := .Values.config }}
{{- if kindIs "bool" $value }}{{- $value = ternary "on" "off" $value }}
{{- else if and (kindIs "float64" $value) (eq (floor $value) $value) }}{{- $value = printf "%.0f" $value }}
{{- end }}
{{- $_ := set $config $key (toString $value) }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{- define "cns.labels" -}}
app.kubernetes.io/name: cns
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* A resource of ../kubernetes as this release has it: (dict "root" $ "resource" …) */}}
{{- define "cns.resource" -}}
{{- $root := .root }}{{- $values := .root.Values }}{{- $resource := .resource }}{{- $spec := .resource.spec }}
{{- $ours := include "cns.labels" $root | fromYaml }}
{{- $managed := dict "app.kubernetes.io/managed-by" $root.Release.Service "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version) }}
{{- $_ := set $resource.metadata "namespace" $root.Release.Namespace }}
{{- $_ := set $resource.metadata "labels" (merge (dict) $ours $managed (default dict $resource.metadata.labels)) }}
{{- if eq $resource.kind "Service" }}
{{- $_ := set $spec "selector" (merge (dict) $spec.selector $ours) }}
{{- $_ := mergeOverwrite $spec (deepCopy $values.service) }}
{{- else if $spec.selector }}
{{- $_ := set $spec.selector "matchLabels" (merge (dict) $spec.selector.matchLabels $ours) }}
{{- end }}
{{- if eq $resource.kind "NetworkPolicy" }}
{{- $_ := set $spec.podSelector "matchLabels" (merge (dict) (default dict $spec.podSelector.matchLabels) $ours) }}
{{- range $rule := $spec.ingress }}
{{- if $values.networkPolicy.from }}{{- $_ := set $rule "from" $values.networkPolicy.from }}{{- end }}
{{- end }}
{{- if $values.networkPolicy.egress }}
{{- $_ := set $spec "egress" $values.networkPolicy.egress }}
{{- $_ := set $spec "policyTypes" (list "Ingress" "Egress") }}
{{- end }}
{{- end }}
{{- if $spec.template }}{{- include "cns.pod" (dict "root" $root "resource" $resource "labels" $ours) }}{{- end }}
{{- toYaml $resource }}
{{- end }}

{{/* Changes the pod of a resource in place. */}}
{{- define "cns.pod" -}}
{{- $root := .root }}{{- $values := .root.Values }}{{- $spec := .resource.spec }}{{- $pod := $spec.template.spec }}
{{- $config := include "cns.config" $root }}
{{- $component := get $spec.template.metadata.labels "app.kubernetes.io/component" }}
{{- $container := first $pod.containers }}
{{- $_ := set $spec.template.metadata "labels" (merge (dict) $spec.template.metadata.labels .labels) }}
{{- $_ := set $spec.template.metadata "annotations" (merge (dict "cns/config" (sha256sum $config)) (default dict $spec.template.metadata.annotations)) }}
{{- $_ := set $container "image" (printf "%s:%s" $values.image.repository (default $root.Chart.AppVersion $values.image.tag)) }}
{{- $_ := set $container "imagePullPolicy" $values.image.pullPolicy }}
{{- range $source := $container.envFrom }}
{{- if $source.secretRef }}{{- $_ := set $source.secretRef "name" $values.secretName }}{{- end }}
{{- end }}
{{- $_ := set $container "resources" (mergeOverwrite $container.resources (deepCopy (default dict (get $values.resources $component)))) }}
{{- if $values.tls.secretName }}
{{- $_ := set $container "volumeMounts" (append $container.volumeMounts (dict "name" "tls" "mountPath" "/tls" "readOnly" true)) }}
{{- $_ := set $pod "volumes" (append $pod.volumes (dict "name" "tls" "secret" (dict "secretName" $values.tls.secretName))) }}
{{- range $name := list "startupProbe" "readinessProbe" "livenessProbe" }}
{{- $probe := get $container $name }}
{{- if and $probe $probe.httpGet }}{{- $_ := set $probe.httpGet "scheme" "HTTPS" }}{{- end }}
{{- end }}
{{- end }}
{{- range $spread := $pod.topologySpreadConstraints }}
{{- $_ := set $spread.labelSelector "matchLabels" (merge (dict) $spread.labelSelector.matchLabels $.labels) }}
{{- end }}
{{- if hasKey $values.replicas $component }}
{{- if $values.autoscaling.enabled }}
{{- if ne $component "maintenance" }}{{- $_ := unset $spec "replicas" }}{{- end }}
{{- else }}{{- $_ := set $spec "replicas" (get $values.replicas $component) }}{{- end }}
{{- end }}
{{- if eq .resource.kind "Job" }}
{{- /* the schema is there before the first pod starts, when there is no ConfigMap yet */}}
{{- $_ := set .resource.metadata "annotations" (dict "helm.sh/hook" "pre-install,pre-upgrade" "helm.sh/hook-delete-policy" "before-hook-creation") }}
{{- $env := list }}
{{- range $name, $value := fromYaml $config }}{{- $env = append $env (dict "name" $name "value" $value) }}{{- end }}
{{- $_ := set $container "env" $env }}
{{- $_ := set $container "envFrom" (rest $container.envFrom) }}
{{- end }}
{{- if eq .resource.kind "StatefulSet" }}
{{- $claim := (first $spec.volumeClaimTemplates).spec }}
{{- $_ := set $claim "resources" (dict "requests" (dict "storage" $values.volume.size)) }}
{{- if $values.volume.storageClassName }}{{- $_ := set $claim "storageClassName" $values.volume.storageClassName }}{{- end }}
{{- end }}
{{- $_ := mergeOverwrite $pod (deepCopy $values.pod) }}
{{- end }}
