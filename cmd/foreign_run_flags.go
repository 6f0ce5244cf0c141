package cmd

// inManifest is the hint for a flag of docker run that has a field but no flag in podrun.
func inManifest(field string) foreignFlag {
	return foreignFlag{"add '--dry-run=client -o yaml > pod.yaml' before the image, set " + field + " in the file, and run 'podrun run pod.yaml'", true}
}

// foreignRunFlags are the flags of docker run and kubectl run that podrun run does not have.
var foreignRunFlags = map[string]foreignFlag{
	"mount":              {"use -v SOURCE:PATH[:ro]", true},
	"volumes-from":       {"the containers of one pod share its volumes: write both into one manifest", true},
	"tmpfs":              inManifest("a volume with emptyDir: {medium: Memory}"),
	"shm-size":           inManifest("a volume with emptyDir: {medium: Memory}, mounted at /dev/shm,"),
	"add-host":           inManifest("spec.hostAliases"),
	"dns":                inManifest("spec.dnsPolicy: None and spec.dnsConfig.nameservers"),
	"dns-search":         inManifest("spec.dnsConfig.searches"),
	"pid":                inManifest("spec.hostPID: true"),
	"ipc":                inManifest("spec.hostIPC: true"),
	"userns":             inManifest("spec.hostUsers"),
	"sysctl":             inManifest("spec.securityContext.sysctls"),
	"group-add":          inManifest("spec.securityContext.supplementalGroups"),
	"security-opt":       inManifest("securityContext.seccompProfile, appArmorProfile or seLinuxOptions of the container"),
	"stop-timeout":       inManifest("spec.terminationGracePeriodSeconds"),
	"stop-signal":        inManifest("lifecycle.stopSignal of the container"),
	"health-cmd":         inManifest("livenessProbe.exec of the container"),
	"cpu-shares":         inManifest("resources.requests.cpu of the container"),
	"memory-reservation": inManifest("resources.requests.memory of the container"),
	"gpus":               inManifest("resources.limits of the container to an extended resource, which --device assigns a CDI device,"),
	"overrides":          inManifest("the fields"),
	"ulimit":             {"a pod has no ulimits: set them in the runtime's base OCI spec, or with ulimit in the container's command", true},
	"platform":           {"podrun runs the images of this host's platform: omit the flag", true},
	"link":               {"the containers of one pod share localhost: write both into one manifest", true},
	"P":                  {"name the ports: -p HOSTPORT:PORT", false},
	"publish-all":        {"name the ports: -p HOSTPORT:PORT", false},
	"expose":             {"podrun does not create Services: omit the flag, and use -p HOSTPORT:PORT or 'podrun port-forward'", false},
	"log-driver":         {"podrun keeps the logs in files, which 'podrun logs' reads: omit the flag", true},
	"log-opt":            {"use --container-log-max-size and --container-log-max-files", true},
	"cidfile":            {"use --name, and the name in place of an ID", true},
	"requests":           inManifest("resources.requests of the container"),
	"limits":             {"use --cpus and --memory", true},
	"serviceaccount":     {noAccounts, true},
}
