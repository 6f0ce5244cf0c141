package fields

// class states how podrun treats a field.
type class string

const (
	supported class = "supported" // a change of the field changes podrun's actions
	refused   class = "refused"   // podrun refuses the field before any side effect
	warned    class = "warned"    // podrun ignores the field, with a warning
	noEffect  class = "no effect" // podrun ignores the field, as a kubelet does
	leftOut   class = "left out"  // an API server sets the field in exported objects
)

// row contains the class of a field, and of all fields below it that have no row.
type row struct {
	path  string
	class class
	note  string
	// try is for fields that no pod in testdata/pods.yaml can set: a part of a pod that sets the
	// field, and a part of the expected message.
	try, says string
	// test names a test in another package (package.TestName) for an effect that plans do not
	// show.
	test string
	// fixed means that the API accepts only one value, or that the value appears only in the
	// annotation that the kubelet sets on the container.
	fixed bool
}

// rows are the rows of docs/pod-fields.md, in the order of the page.
var rows = []row{
	{path: "metadata.name", class: supported},
	{path: "metadata.generateName", class: supported, note: "podrun adds a random suffix"},
	{path: "metadata.namespace", class: supported, note: "if not set, the namespace of `--namespace`, or `default`"},
	{path: "metadata.uid", class: supported, note: "must be safe in a path; the default is a hash of the pod"},
	{path: "metadata.labels", class: supported},
	{path: "metadata.annotations", class: supported},
	{path: "metadata", class: leftOut, note: "set by an API server, or for its controllers", try: "metadata: {selfLink: /x, resourceVersion: '1', generation: 1, creationTimestamp: '2026-01-01T00:00:00Z', deletionTimestamp: '2026-01-01T00:00:00Z', deletionGracePeriodSeconds: 1, finalizers: [example.com/f], ownerReferences: [{apiVersion: v1, kind: Node, name: owner, uid: u, controller: true, blockOwnerDeletion: true}], managedFields: [{manager: m, operation: Apply, apiVersion: v1, time: '2026-01-01T00:00:00Z', fieldsType: FieldsV1, fieldsV1: {}, subresource: s}]}"},

	{path: "spec.restartPolicy", class: supported, note: "enforced only while a podrun command is running for the pod; `apply` prints a warning about this"},
	{path: "spec.terminationGracePeriodSeconds", class: supported},
	{path: "spec.activeDeadlineSeconds", class: supported, note: "enforced only while a podrun command is running for the pod; `apply` prints a warning about this"},
	{path: "spec.nodeName", class: leftOut, note: "the node is this host", try: "spec: {nodeName: other}"},
	{path: "spec.nodeSelector", class: supported, note: "the pod is refused on a host without these labels"},
	{path: "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution", class: supported, note: "the pod is refused if this host does not match"},
	{path: "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[].matchFields[].key", class: supported, fixed: true, note: "the API accepts metadata.name only"},
	{path: "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution", class: noEffect, note: "there is only one host", try: "spec: {affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: In, values: [b]}], matchFields: [{key: metadata.name, operator: In, values: [other]}]}}]}}}"},
	{path: "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution", class: warned, note: "there is no scheduler", try: "spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [" + term + "]}}}", says: "there is no scheduler"},
	{path: "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution", class: noEffect, note: "there is only one host", try: "spec: {affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: " + term + "}]}}}"},
	{path: "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution", class: warned, note: "there is no scheduler", try: "spec: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [" + term + "]}}}", says: "there is no scheduler"},
	{path: "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution", class: noEffect, note: "there is only one host", try: "spec: {affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: " + term + "}]}}}"},
	{path: "spec.topologySpreadConstraints", class: noEffect, note: "there is only one host", try: "spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, minDomains: 2, nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor, labelSelector: {matchLabels: {a: b}}, matchLabelKeys: [c]}]}"},
	{path: "spec.tolerations", class: supported, note: "a pod must tolerate the NoExecute taints of `--register-with-taints`"},
	{path: "spec.tolerations[].tolerationSeconds", class: noEffect, note: "only the controller that evicts pods from tainted nodes uses it", try: "spec: {tolerations: [{key: own, operator: Exists, effect: NoExecute, tolerationSeconds: 1}]}"},
	{path: "spec.schedulerName", class: noEffect, note: "there is no scheduler", try: "spec: {schedulerName: mine}"},
	{path: "spec.schedulingGates", class: warned, note: "`apply` starts the pod without waiting for them", try: "spec: {schedulingGates: [{name: example.com/wait}]}", says: "does not wait for the gate"},
	{path: "spec.schedulingGroup", class: warned, note: "its feature gate is off", try: "spec: {schedulingGroup: {podGroupName: g}}", says: "feature gate"},
	{path: "spec.readinessGates", class: warned, note: "no controller sets their conditions: the pod is never Ready, as with the kubelet", try: "spec: {readinessGates: [{conditionType: example.com/ok}]}", says: "will not be Ready"},
	{path: "spec.priorityClassName", class: supported, note: "must name a PriorityClass in the input, or be system-node-critical or system-cluster-critical"},
	{path: "spec.priority", class: supported, note: "critical pods preempt other podrun pods", test: "admission.TestPreempt"},
	{path: "spec.preemptionPolicy", class: noEffect, note: "only the scheduler uses it; a kubelet's preemption ignores it", try: "spec: {preemptionPolicy: Never}"},
	{path: "spec.resourceClaims", class: refused, note: "podrun does not allocate claims or prepare devices", try: "spec: {resourceClaims: [{name: gpu, resourceClaimName: c}]}", says: "dynamic resources are not supported"},
	{path: "spec.os.name", class: supported, note: "must be the operating system of this host"},
	{path: "spec.runtimeClassName", class: supported, note: "must name a RuntimeClass in the input; podrun uses its handler, overhead and scheduling"},
	{path: "spec.overhead", class: supported},
	{path: "spec.resources", class: supported, note: "requests and limits of the whole pod"},
	{path: "spec.resources.claims", class: refused, note: "the API refuses it", try: "spec: {resources: {claims: [{name: gpu}]}}", says: "claims"},

	{path: "spec.serviceAccountName", class: supported, note: "visible in the downward API; if it is not `default`, podrun prints a warning, because it does not mount a token"},
	{path: "spec.serviceAccount", class: supported, note: "the deprecated name of serviceAccountName", test: "manifest.TestNoToken"},
	{path: "spec.automountServiceAccountToken", class: warned, note: "there is no API server to issue a token; `false` causes no warning", try: "spec: {automountServiceAccountToken: true}", says: "no token is mounted"},
	{path: "spec.imagePullSecrets", class: supported, note: "must be in the input"},
	{path: "spec.enableServiceLinks", class: supported, note: "variables of the Services of this root directory", test: "run/start.TestServiceEnv"},

	{path: "spec.hostNetwork", class: supported},
	{path: "spec.hostPID", class: supported},
	{path: "spec.hostIPC", class: supported},
	{path: "spec.hostUsers", class: supported, note: "refused if the runtime's handler does not advertise user namespaces"},
	{path: "spec.shareProcessNamespace", class: supported},
	{path: "spec.hostname", class: supported},
	{path: "spec.subdomain", class: supported},
	{path: "spec.setHostnameAsFQDN", class: supported},
	{path: "spec.hostnameOverride", class: supported},
	{path: "spec.hostAliases", class: supported},
	{path: "spec.dnsPolicy", class: supported},
	{path: "spec.dnsConfig", class: supported, note: "podrun merges it with the configuration of the dnsPolicy, within the kubelet's limits"},

	{path: "spec.securityContext", class: supported},
	{path: "spec.securityContext.seLinuxOptions", class: supported, note: "on a host without SELinux, it has no effect and causes a warning"},
	{path: "spec.securityContext.seLinuxChangePolicy", class: noEffect, note: "applies only to volumes that are mounted with a label (CSI); the runtime labels other volumes, as with Recursive", try: "spec: {securityContext: {seLinuxChangePolicy: Recursive}}"},
	{path: "spec.securityContext.windowsOptions", class: warned, note: "this host is not Windows", try: "spec: {securityContext: {windowsOptions: {gmsaCredentialSpecName: a, gmsaCredentialSpec: b, runAsUserName: c, hostProcess: false}}}", says: "does not run Windows"},
	{path: "spec.securityContext.fsGroupChangePolicy", class: supported, note: "affects only volumes whose data exists before the pod"},

	{path: "spec.containers[]", class: supported},
	{path: "spec.containers[].imagePullPolicy", class: supported},
	{path: "spec.containers[].ports[]", class: supported},
	{path: "spec.containers[].env[].valueFrom.fieldRef.apiVersion", class: supported, fixed: true, note: "the API accepts v1 only"},
	{path: "spec.containers[].env[].valueFrom.fileKeyRef", class: supported},
	{path: "spec.containers[].resources", class: supported, note: "only `podrun serve` enforces an ephemeral-storage limit; other commands print a warning if `serve` is not running. An extended resource without `--device` is refused"},
	{path: "spec.containers[].resources.claims", class: refused, note: "like spec.resourceClaims", try: "spec: {resourceClaims: [{name: gpu, resourceClaimName: c}], containers: [{name: app, image: i, resources: {claims: [{name: gpu, request: r}]}}]}", says: "dynamic resources are not supported"},
	{path: "spec.containers[].resizePolicy", class: supported, note: "`apply` and `serve` resize CPU and memory in place", test: "test/engine/update.TestResizeRestarts"},
	{path: "spec.containers[].volumeMounts[].recursiveReadOnly", class: supported, note: "`Enabled` is refused if the runtime does not advertise support for it"},
	{path: "spec.containers[].livenessProbe", class: supported, note: "runs only while a podrun command is running for the pod; `apply` prints a warning about this"},
	{path: "spec.containers[].livenessProbe.successThreshold", class: supported, fixed: true, note: "the API accepts 1 only"},
	{path: "spec.containers[].readinessProbe", class: supported, note: "runs only while a podrun command is running for the pod"},
	{path: "spec.containers[].readinessProbe.terminationGracePeriodSeconds", class: refused, note: "the API refuses it", try: "spec: {containers: [{name: app, image: i, readinessProbe: {exec: {command: [a]}, terminationGracePeriodSeconds: 1}}]}", says: "readinessProbes"},
	{path: "spec.containers[].startupProbe", class: supported},
	{path: "spec.containers[].startupProbe.successThreshold", class: supported, fixed: true, note: "the API accepts 1 only"},
	{path: "spec.containers[].lifecycle", class: supported},
	{path: "spec.containers[].lifecycle.postStart.tcpSocket", class: noEffect, fixed: true, note: "the hook always fails, as in the kubelet", try: "spec: {containers: [{name: app, image: i, lifecycle: {postStart: {tcpSocket: {port: 80, host: h}}}}]}"},
	{path: "spec.containers[].lifecycle.preStop.tcpSocket", class: noEffect, fixed: true, note: "the hook always fails, as in the kubelet", try: "spec: {containers: [{name: app, image: i, lifecycle: {preStop: {tcpSocket: {port: 80, host: h}}}}]}"},
	{path: "spec.containers[].lifecycle.stopSignal", class: supported, note: "requires the feature gate ContainerStopSignals; podrun prints a warning if the runtime does not support it (containerd before 2.3, CRI-O before 1.34)"},
	{path: "spec.containers[].terminationMessagePolicy", class: supported},
	{path: "spec.containers[].securityContext", class: supported},
	{path: "spec.containers[].securityContext.seLinuxOptions", class: supported, note: "on a host without SELinux, it has no effect and causes a warning"},
	{path: "spec.containers[].securityContext.windowsOptions", class: warned, note: "this host is not Windows", try: "spec: {containers: [{name: app, image: i, securityContext: {windowsOptions: {gmsaCredentialSpecName: a, gmsaCredentialSpec: b, runAsUserName: c, hostProcess: false}}}]}", says: "does not run Windows"},
	{path: "spec.containers[].stdin", class: supported},
	{path: "spec.containers[].stdinOnce", class: supported},
	{path: "spec.containers[].tty", class: supported},

	{path: "spec.initContainers[]", class: supported, note: "like spec.containers[]"},
	{path: "spec.initContainers[].restartPolicy", class: supported, note: "`Always` makes the container a sidecar"},
	{path: "spec.initContainers[].ports[].hostPort", class: warned, note: "the kubelet maps ports of app containers only", try: "spec: {initContainers: [{name: side, image: i, restartPolicy: Always, ports: [{containerPort: 80, hostPort: 80}]}]}", says: "forwards ports of app containers only"},
	{path: "spec.ephemeralContainers[]", class: refused, note: "refused in a new pod, as by the API; `podrun debug` and `apply` can add ephemeral containers to a running pod", try: "spec: {ephemeralContainers: [{name: e, image: i}]}", says: "cannot be set on create"},

	{path: "spec.volumes[].name", class: supported},
	{path: "spec.volumes[].emptyDir", class: supported},
	{path: "spec.volumes[].emptyDir.sizeLimit", class: supported, note: "limits the tmpfs of medium Memory; for other media, only `podrun serve` enforces it, and other commands print a warning if `serve` is not running"},
	{path: "spec.volumes[].hostPath", class: supported},
	{path: "spec.volumes[].configMap", class: supported, note: "must be in the input"},
	{path: "spec.volumes[].secret", class: supported, note: "must be in the input"},
	{path: "spec.volumes[].downwardAPI", class: supported},
	{path: "spec.volumes[].downwardAPI.items[].fieldRef.apiVersion", class: supported, fixed: true, note: "the API accepts v1 only"},
	{path: "spec.volumes[].projected", class: supported},
	{path: "spec.volumes[].projected.sources[].downwardAPI.items[].fieldRef.apiVersion", class: supported, fixed: true, note: "the API accepts v1 only"},
	{path: "spec.volumes[].projected.sources[].serviceAccountToken", class: refused, note: "only an API server issues tokens; podrun drops the volume that an API server adds to every pod, with a warning", try: projected("serviceAccountToken: {audience: a, expirationSeconds: 600, path: token}"), says: "issued by an API server"},
	{path: "spec.volumes[].projected.sources[].clusterTrustBundle", class: refused, note: "requires an API server; the feature gate of this source is off", try: projected("clusterTrustBundle: {name: bundle, path: p}"), says: "unknown source of a projected volume"},
	{path: "spec.volumes[].projected.sources[].podCertificate", class: refused, note: "an API server issues these certificates; the feature gate of this source is off", try: projected("podCertificate: {signerName: example.com/s, keyType: ED25519, credentialBundlePath: p}"), says: "unknown source of a projected volume"},
	{path: "spec.volumes[].persistentVolumeClaim", class: supported, note: "podrun binds the claim to a PersistentVolume of the input, to the directory of `--pvc NAME=DIR`, or to a directory below `--pvc-dir`"},
	{path: "spec.volumes[].ephemeral", class: warned, note: "a directory of the pod, without a size limit", try: "spec: {volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]}", says: "does not provision a claim"},
	{path: "spec.volumes[].image", class: supported, note: "requires containerd 2.1 or CRI-O 1.31"},
	{path: "spec.volumes[].nfs", class: supported},
	unserved("awsElasticBlockStore", "volumeID: v"),
	unserved("azureDisk", "diskName: d, diskURI: 'https://a.blob.core.windows.net/b/c'"),
	unserved("azureFile", "secretName: s, shareName: share"),
	unserved("cephfs", "monitors: [a]"),
	unserved("cinder", "volumeID: v"),
	unserved("csi", "driver: d"),
	unserved("fc", "targetWWNs: [a], lun: 1"),
	unserved("flexVolume", "driver: a/b"),
	unserved("flocker", "datasetName: d"),
	unserved("gcePersistentDisk", "pdName: d"),
	{path: "spec.volumes[].gitRepo", class: refused, note: "the kubelet no longer supports it; clone the repository in an init container", try: "spec: {volumes: [{name: v, gitRepo: {repository: r}}]}", says: "with an init container"},
	unserved("glusterfs", "endpoints: e, path: p"),
	unserved("iscsi", "targetPortal: 192.0.2.1, iqn: 'iqn.2001-04.com.example:a', lun: 1"),
	unserved("photonPersistentDisk", "pdID: p"),
	unserved("portworxVolume", "volumeID: v"),
	unserved("quobyte", "registry: 'r:1', volume: v"),
	unserved("rbd", "monitors: [a], image: i"),
	unserved("scaleIO", "gateway: g, system: s, volumeName: v, secretRef: {name: s}"),
	unserved("storageos", "volumeName: v"),
	unserved("vsphereVolume", "volumePath: p"),
}

const term = "{topologyKey: kubernetes.io/hostname, namespaces: [other], matchLabelKeys: [c], mismatchLabelKeys: [d], labelSelector: {matchLabels: {a: b}}}"

func projected(source string) string {
	return "spec: {volumes: [{name: v, projected: {sources: [{" + source + "}]}}]}"
}

func unserved(kind, fields string) row {
	return row{path: "spec.volumes[]." + kind, class: refused, note: "mount the storage on the host and use hostPath",
		try: "spec: {volumes: [{name: v, " + kind + ": {" + fields + "}}]}", says: "not supported"}
}
