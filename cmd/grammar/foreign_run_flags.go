package grammar

// inManifest is the hint for a flag of docker run whose setting podrun has as a field of the
// manifest, but not as a flag.
func inManifest(field string) string {
	return "add '--dry-run=client -o yaml > pod.yaml' before the image, set " + field + " in the file, and run 'podrun run pod.yaml'"
}

// foreignRunFlags contains the hints for flags of docker run and kubectl run that podrun run does not have.
var foreignRunFlags = map[string]string{
	"mount":                      "use -v SOURCE:PATH[:ro]",
	"volumes-from":               "containers of one pod can share volumes: define both containers in one manifest",
	"tmpfs":                      inManifest("a volume with emptyDir: {medium: Memory}"),
	"shm-size":                   inManifest("a volume with emptyDir: {medium: Memory}, mounted at /dev/shm,"),
	"add-host":                   inManifest("spec.hostAliases"),
	"dns":                        inManifest("spec.dnsPolicy: None and spec.dnsConfig.nameservers"),
	"dns-search":                 inManifest("spec.dnsConfig.searches"),
	"pid":                        inManifest("spec.hostPID: true"),
	"ipc":                        inManifest("spec.hostIPC: true"),
	"userns":                     inManifest("spec.hostUsers"),
	"sysctl":                     inManifest("spec.securityContext.sysctls"),
	"group-add":                  inManifest("spec.securityContext.supplementalGroups"),
	"security-opt":               inManifest("securityContext.seccompProfile, appArmorProfile or seLinuxOptions of the container"),
	"stop-timeout":               inManifest("spec.terminationGracePeriodSeconds"),
	"stop-signal":                inManifest("lifecycle.stopSignal of the container"),
	"health-cmd":                 inManifest("livenessProbe.exec of the container"),
	"cpu-shares":                 inManifest("resources.requests.cpu of the container"),
	"memory-reservation":         inManifest("resources.requests.memory of the container"),
	"gpus":                       inManifest("an extended resource (see --device) in resources.limits of the container"),
	"overrides":                  inManifest("the fields"),
	"ulimit":                     "the Pod API has no ulimits: set them in the runtime's base OCI spec, or run ulimit in the container's command",
	"platform":                   "podrun runs the images of this host's platform: omit the flag",
	"link":                       "containers of one pod share localhost: define both containers in one manifest",
	"P":                          "specify the ports: -p HOSTPORT:PORT",
	"publish-all":                "specify the ports: -p HOSTPORT:PORT",
	"expose":                     "define a Service in a manifest; or omit the flag, and use -p HOSTPORT:PORT or 'podrun port-forward NAME PORT'",
	"log-driver":                 "podrun keeps the logs in files, which 'podrun logs NAME' prints: omit the flag",
	"log-opt":                    "use --container-log-max-size and --container-log-max-files",
	"cidfile":                    "set --name, and use the name instead of an ID",
	"requests":                   inManifest("resources.requests of the container"),
	"limits":                     "use --cpus and --memory",
	"serviceaccount":             noAccounts,
	"abort-on-container-exit":    "use --exit-code-from NAME: the run ends when this container exits",
	"abort-on-container-failure": "use --exit-code-from NAME: the run ends when this container exits",
}
