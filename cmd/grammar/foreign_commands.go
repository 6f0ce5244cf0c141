package grammar

// SameAs maps commands of kubectl, docker, podman, crictl and systemctl, by their first words,
// to the equivalent podrun commands.
var SameAs = map[string][]string{
	"replace":       {"apply"},
	"ps":            {"get"},
	"ls":            {"get"},
	"list":          {"get"},
	"pods":          {"get"},
	"list-units":    {"get"},
	"rm":            {"delete"},
	"rmp":           {"delete"},
	"stopp":         {"stop"},
	"journal":       {"logs"},
	"kill":          {"stop", "--grace-period=0"},
	"inspect":       {"get", "-o", "json"},
	"inspectp":      {"get", "-o", "json"},
	"cat":           {"get", "-o", "yaml"},
	"show":          {"describe"},
	"images":        {"image", "ls"},
	"img":           {"image", "ls"},
	"pull":          {"image", "pull"},
	"load":          {"image", "load"},
	"rmi":           {"image", "rm"},
	"save":          {"image", "save"},
	"image remove":  {"image", "rm"},
	"image delete":  {"image", "rm"},
	"play kube":     {"apply"},
	"kube play":     {"apply"},
	"kube apply":    {"apply"},
	"play":          {"apply"},
	"kube down":     {"delete", "-f"},
	"kube generate": {"get", "-o", "yaml"},
	"generate kube": {"get", "-o", "yaml"},
	"info":          {"doctor"},
	"get events":    {"events"},
	"get event":     {"events"},
	"get ev":        {"events"},
	"statsp":        {"top"},
}

// flagNames maps flags of the commands in sameAs to podrun's names for them. "-n NUMBER" is the flag -n only if a
// number follows, and "-l END" the flag -l only if no value follows.
var flagNames = map[string]map[string]string{
	"rm":            deleteFlagNames,
	"rmp":           deleteFlagNames,
	"ps":            psFlagNames,
	"ls":            psFlagNames,
	"list":          psFlagNames,
	"pods":          psFlagNames,
	"inspect":       {"-f": "--format"},
	"inspectp":      {"-f": "--format"},
	"kube generate": {"-f": "--write-to", "--filename": "--write-to", "-s": "--service"},
	"generate kube": {"-f": "--write-to", "--filename": "--write-to", "-s": "--service"},
	"kill":          {"-9": "--now", "-KILL": "--now", "-SIGKILL": "--now"},
	"info":          {"-f": "--format"},
	"rmi":           {"-f": "--force"},
	"play kube":     {"--replace": "--force"},
	"kube play":     {"--replace": "--force"},
	"play":          {"--replace": "--force"},
}

var deleteFlagNames = map[string]string{"-f": "--force", "-a": "--all", "-l END": "--latest"}

// psFlagNames are the flags of docker ps and podman ps whose letters have another meaning in podrun get.
var psFlagNames = map[string]string{"-n NUMBER": "--last", "-l END": "--latest", "-s END": "--size", "-p END": "--pod", "-f": "--filter"}

// Texts that several commands share.
const (
	UseManifest = "change the manifest and run 'podrun apply FILE'"
	noCluster   = "podrun has no API server; to check this host, run 'podrun doctor'"
	noContexts  = "podrun has no kubeconfig: it manages the pods of this host, and -n or PODRUN_NAMESPACE sets the namespace; 'podrun help config' describes its settings file"
	noReplicas  = "to run several pods of a workload, set spec.replicas and the annotation podrun.dev/replicas: honour in its manifest, or use 'podrun scale deploy/NAME --replicas=2'"
	noScaler    = "podrun does not scale by load: use 'podrun scale deploy/NAME --replicas=2'"
	noPause     = "podrun applies changes immediately, so a rollout cannot be paused"
	useForward  = "use 'podrun port-forward NAME PORT', connect to the pod's IP ('podrun get -o wide'), or set hostPort for a port of the container"
	noServices  = "define a Service in a manifest and run 'podrun apply FILE', use 'podrun port-forward POD PORT', or set hostPort for a port of the container"
	useExpose   = "define a Service in a manifest and run 'podrun apply FILE', use 'podrun port-forward NAME PORT', or set hostPort for a port of the container"
	useKustom   = "use 'podrun apply -k KUSTOMIZATION', or 'podrun apply -k KUSTOMIZATION --dry-run=client -o yaml' for its pods"
	NoBuild     = "podrun does not build images: run 'docker build -t TAG .', then 'docker save TAG | podrun image load -'"
	useUnit     = "use 'systemctl disable --now podrun', or 'podrun service uninstall' to remove the unit"
	useMetrics  = "use 'podrun top' for CPU and memory; 'podrun serve' provides metrics: 'curl --unix-socket /var/lib/podrun/serve/readonly.sock http://podrun/metrics'"
	noNamespace = "use 'podrun apply -n NAME FILE': a namespace exists as soon as it has a pod"
	noAccounts  = "podrun has no API server and no accounts; omit serviceAccountName in the manifest"
	noQuota     = "podrun does not enforce quotas: limit the resources of each pod in its manifest"
	usePorts    = "use 'podrun describe NAME' to show the ports of the pod, and 'podrun port-forward NAME PORT' to forward one"
	useHealth   = "use 'podrun get NAME': READY counts the containers whose probes succeed; run 'podrun describe NAME' for their probes and events"
	oneHost     = "podrun manages only the host that it runs on: for another host, run 'ssh HOST podrun get'"
	useInspect  = "use 'podrun image ls -o json' for IDs, names and sizes, or 'crictl inspecti IMAGE' for the configuration"
	useTag      = "use 'ctr -a SOCKET -n k8s.io images tag SOURCE_REF TARGET_REF' with containerd"
	UseImport   = "for an archive of docker save: 'podrun image load ARCHIVE'; for a root file system: 'docker import ARCHIVE IMPORT_NAME && docker save IMPORT_NAME | podrun image load -'"
	useEnded    = "to delete the pods that have ended, run 'podrun get --field-selector=status.phase!=Running,status.phase!=Pending,status.phase!=Unknown -o name | xargs -r podrun delete'"
	noStart     = "to keep a pod from starting at boot, remove its manifest from /etc/podrun/manifests and run 'podrun stop NAME'; for the service, use 'systemctl disable --now podrun'"
	useCompose  = "convert the Compose file: 'kompose convert -f compose.yaml -o pods.yaml', then run 'podrun apply pods.yaml'"
	useStop     = "use 'podrun stop NAME' and 'podrun start NAME'; podrun cannot pause containers"
	noCSRs      = "podrun has no API server and no CertificateSigningRequests: sign the certificate with your own CA and pass it as a Secret: 'podrun apply pod.yaml --secret secret.yaml'"
	useFiles    = "use 'podrun exec NAME -- ls /' to look at the files, or 'podrun cp NAME:PATH DIR' to copy them"
	useSSH      = "use 'podrun exec -it NAME -- sh'"
	useService  = "the service starts the pods of /etc/podrun/manifests at boot: run 'podrun service install --now', then 'podrun get pod NAME -o yaml --with-references > /etc/podrun/manifests/NAME.yaml'"
	useSecret   = "write a manifest: 'podrun create secret generic NAME --from-file=TARGET --dry-run=client -o yaml > NAME.yaml', then run 'podrun apply pod.yaml --secret NAME.yaml'"
)

// UseInstead maps commands that podrun does not have to hints on what to use. Entries
// with two words take precedence. fillHint replaces the words in capitals.
var UseInstead = map[string]string{
	"port":          usePorts,
	"expose":        useExpose,
	"proxy":         useForward,
	"rename":        UseManifest,
	"update":        UseManifest,
	"autoscale":     noScaler,
	"kustomize":     useKustom,
	"convert":       "podrun reads Pods of v1, and workloads of apps/v1 and batch/v1",
	"config":        noContexts,
	"cluster-info":  noCluster,
	"api-resources": "podrun manages pods, workloads and Services; run 'podrun explain pod' for the fields of a Pod",
	"api-versions":  "podrun reads v1, apps/v1 and batch/v1; run 'podrun explain pod' for the fields of a Pod",
	"auth":          "podrun has no API server: root may do everything; run 'podrun help security' for the limits",
	"certificate":   noCSRs,
	"token":         noCluster,
	"cordon":        "podrun has no scheduler: only the commands apply, run and serve start pods on this host",
	"uncordon":      "podrun does not schedule pods: start them with 'podrun apply FILE'",
	"taint":         "podrun has no scheduler: only the commands apply, run and serve start pods on this host",
	"drain":         "use 'podrun stop --all' or 'podrun delete --all'",
	"plugin":        "podrun has no plugins; run 'podrun --help' to list its commands",
	"krew":          "podrun has no plugins; run 'podrun --help' to list its commands",
	"alpha":         "podrun has no alpha commands; run 'podrun --help' to list its commands",

	"apply view-last-applied": "use 'podrun get NAME -o yaml'",
	"apply edit-last-applied": "use 'podrun edit NAME'",
	"apply set-last-applied":  UseManifest,

	"rollout pause":      noPause,
	"rollout resume":     noPause,
	"set selector":       "the selector is in the manifest: " + UseManifest,
	"set subject":        noAccounts,
	"set serviceaccount": noAccounts,
	"set sa":             noAccounts,

	"create namespace":      noNamespace,
	"create ns":             noNamespace,
	"create service":        noServices,
	"create svc":            noServices,
	"create ingress":        noServices,
	"create token":          noAccounts,
	"create serviceaccount": noAccounts,
	"create sa":             noAccounts,
	"create role":           noAccounts,
	"create rolebinding":    noAccounts,
	"create quota":          noQuota,
	"create resourcequota":  noQuota,
	"create pdb":            "podrun does not evict pods for maintenance: 'podrun stop NAME' stops one",
	"create priorityclass":  "write the PriorityClass into the manifest of the pod",

	"backup":           "use 'podrun get -A -o yaml --with-references > pods.yaml' for the definitions of all pods, and copy the directories of their hostPath volumes and claims",
	"restore":          "use 'podrun apply FILE' with the definitions, after you have restored the directories of hostPath volumes and claims",
	"kubelet":          "podrun needs no kubelet: 'podrun serve DIR' supervises the pods of a directory as a standalone kubelet does",
	"up":               "use 'podrun apply FILE'",
	"down":             "use 'podrun delete -f FILE'",
	"compose":          useCompose,
	"stack":            useCompose,
	"compose ps":       "use 'podrun get'",
	"compose ls":       "use 'podrun get'",
	"compose logs":     "use 'podrun logs -f NAME'",
	"compose down":     "use 'podrun delete -f pods.yaml' with the converted file, or 'podrun delete NAME'",
	"compose rm":       "use 'podrun delete -f pods.yaml' with the converted file, or 'podrun delete NAME'",
	"compose exec":     "use 'podrun exec ARGS'",
	"compose stop":     "use 'podrun stop NAME'",
	"compose start":    "use 'podrun start NAME'",
	"compose restart":  "use 'podrun restart NAME'",
	"compose pull":     "use 'podrun image pull IMAGE'",
	"compose build":    NoBuild,
	"compose top":      "use 'podrun top'",
	"compose port":     usePorts,
	"compose images":   "use 'podrun image ls'",
	"compose config":   "use 'podrun plan pods.yaml' with the converted file",
	"create cluster":   "podrun needs no cluster: start pods with 'podrun apply FILE'",
	"create pod":       "use 'podrun apply FILE', or 'podrun run -d IMAGE' to start a pod from an image",
	"exists":           "use 'podrun get NAME', which exits with 1 if the pod does not exist",
	"image exists":     "use 'podrun image ls -q IMAGE', which prints nothing if the image does not exist",
	"clone":            "write the definition to a file: 'podrun get NAME -o yaml > pod.yaml', change its name, and run 'podrun apply pod.yaml'",
	"remove":           "use 'podrun delete NAME'",
	"del":              "use 'podrun delete NAME'",
	"destroy":          "use 'podrun delete NAME'",
	"purge":            "use 'podrun delete NAME --delete-volumes' for a pod and its claims",
	"unmask":           useService,
	"reset-failed":     "use 'podrun restart NAME'",
	"try-restart":      "use 'podrun restart NAME'",
	"list-unit-files":  "use 'podrun get --sources' for the manifests of 'podrun serve'",
	"build":            NoBuild,
	"buildx":           NoBuild,
	"builder":          NoBuild,
	"bake":             NoBuild,
	"push":             "podrun does not publish images: use 'docker push IMAGE' or 'skopeo copy'",
	"commit":           NoBuild,
	"tag":              useTag,
	"history":          useInspect,
	"inspecti":         useInspect,
	"search":           "podrun does not search registries: use 'docker search' or 'skopeo list-tags docker://IMAGE'",
	"export":           "use 'podrun get NAME -o yaml' for the manifest of a pod, or 'podrun cp NAME:PATH DIR' for its files",
	"generate":         useService,
	"generate systemd": useService,
	"import":           UseImport,
	"runtime-config":   "use 'podrun doctor', which prints the runtime's version and cgroup driver",
	"metricsp":         useMetrics,
	"checkpoint":       "podrun does not checkpoint containers: " + useStop,
	"imagefsinfo":      "use 'podrun image ls' for the size of each image, and 'df -h' for the free space",
	"login":            "podrun reads the credentials of docker and podman: use 'docker login REST', 'podman login REST' or --registry-auth",
	"logout":           "podrun reads the credentials of docker and podman: use 'docker logout' or 'podman logout'",
	"pause":            useStop,
	"unpause":          useStop,
	"network":          "the CNI configuration of the container runtime defines the network; run 'podrun doctor' to check it",
	"volume":           "the manifest defines the volumes: run 'podrun get pvc' to list claims, or 'podrun describe POD' to show the volumes of a pod",
	"container":        "run 'podrun get' to list pods, or 'podrun describe POD' to show a pod's containers",
	"pod":              "all podrun commands manage pods: use 'podrun get', 'podrun delete POD'",
	"container prune":  useEnded,
	"pod create":       "use 'podrun apply FILE'",
	"pod prune":        useEnded,
	"secret":           "podrun stores Secrets with the pods that refer to them: run 'podrun get secrets' to list them, or 'podrun apply FILE' to change one",
	"secret create":    useSecret,
	"secret ls":        "use 'podrun get secrets'",
	"kube":             "use 'podrun apply FILE' and 'podrun delete -f FILE'",
	"system":           "use 'podrun doctor', or 'podrun image prune --all' to free disk space",
	"system df":        "use 'podrun image ls' for the size of each image, and 'podrun image prune --all' to free disk space",
	"prune":            useEnded + "; to remove unused images, run 'podrun image prune --all'",
	"clean":            useEnded + "; to remove unused images, run 'podrun image prune --all'",
	"machine":          "podrun runs containers directly on this host and needs no virtual machine: run 'podrun doctor', then 'podrun apply FILE'",
	"daemon":           "podrun needs no daemon; run 'podrun serve DIR' to supervise the pods of a directory",
	"context":          oneHost,
	"connection":       oneHost,
	"farm":             oneHost,
	"swarm":            oneHost,
	"node":             oneHost,
	"quadlet":          "copy the manifest to /etc/podrun/manifests and run 'podrun service install --now'",
	"auto-update":      "set imagePullPolicy: Always in the manifest and run 'podrun restart NAME', which pulls the image again",
	"healthcheck":      useHealth,
	"healthcheck run":  useHealth,
	"health":           useHealth,
	"mount":            useFiles,
	"umount":           useFiles,
	"unshare":          "podrun runs as root, without a user namespace: run the command directly with 'sudo HOST_COMMAND', or in a container with 'podrun exec POD -- HOST_COMMAND'",
	"runp":             "a pod sandbox belongs to a Pod: write a manifest with 'podrun run --dry-run=client -o yaml IMAGE > pod.yaml', then run 'podrun apply pod.yaml'",
	"shell":            useSSH,
	"ssh":              useSSH,
	"sh":               useSSH,
	"bash":             useSSH,
	"metrics":          useMetrics,
	"status":           "use 'podrun get NAME', or 'podrun service status' for the service",
	"is-active":        "use 'podrun wait NAME --for=phase=Running --timeout=1s', which exits with 0 if the pod runs",
	"is-enabled":       "use 'systemctl is-enabled podrun' for the service",
	"is-failed":        "use 'podrun get NAME -o jsonpath={.status.phase}'",
	"daemon-reload":    "'podrun serve' reads changed manifests automatically; for a manifest that it does not read, run 'podrun apply FILE'",
	"journalctl":       "use 'podrun logs NAME', or 'journalctl -u podrun' for the service",
	"watch":            "use 'podrun get --watch'",
	"validate":         "use 'podrun apply --dry-run=client FILE' or 'podrun plan FILE'",
	"lint":             "use 'podrun apply --dry-run=client FILE' or 'podrun plan FILE'",
	"check":            "use 'podrun doctor' or 'podrun plan FILE'",
	"install":          "use 'podrun apply FILE' for a manifest, or 'podrun service install' for the service",
	"uninstall":        "use 'podrun delete NAME' for a pod, or 'podrun service uninstall' for the service",
	"upgrade":          "install the new podrun over this one; 'podrun runtime upgrade' then upgrades the embedded runtime",
	"enable":           useService,
	"disable":          noStart,
	"mask":             noStart,
	"reload":           "use 'podrun restart NAME', or 'systemctl reload podrun' for the service",
	"pods ls":          "use 'podrun get'",

	"service ls":      "run 'podrun get' to list pods, or 'podrun service status' for podrun.service",
	"service list":    "run 'podrun get' to list pods, or 'podrun service status' for podrun.service",
	"service create":  "use 'podrun service install --now'",
	"service start":   "use 'systemctl start podrun', or 'podrun service install --now' if the unit is not installed",
	"service stop":    "use 'systemctl stop podrun'; the pods keep running",
	"service restart": "use 'systemctl restart podrun'; the pods keep running",
	"service reload":  "use 'systemctl reload podrun'",
	"service logs":    "use 'journalctl -u podrun'",
	"service enable":  "use 'podrun service install --now'",
	"service disable": useUnit,
	"service remove":  "use 'podrun service uninstall'",
	"service rm":      "use 'podrun service uninstall'",

	"image build":   NoBuild,
	"image push":    "podrun does not publish images: use 'docker push IMAGE' or 'skopeo copy'",
	"image tag":     useTag,
	"image inspect": useInspect,
	"image history": useInspect,
	"image import":  UseImport,
}
