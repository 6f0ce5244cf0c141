package start

// sandboxSteps are the steps of lifecycle.CreateSandbox, in order (kubelet: SyncPod, steps 1 to 5). The
// step "sandbox" itself registers an undo for each attempt.
var sandboxSteps = []step[*newSandbox]{
	{"remove the pod's logs", (*Starter).announceSandbox, (*Starter).undoLogs},
	{"remove control group", (*Starter).makeGroups, (*Starter).undoGroups},
	{"volumes", (*Starter).makeVolumesFirst, nil},
	{"sandbox", (*Starter).makeSandboxAndVolumes, nil}, // this step also creates the pod's remaining volumes
}

// containerSteps are the steps of lifecycle.StartContainer, in order (kubelet: startContainer):
// volumes and images, create, start, postStart hook. The steps "volumes" and "images" complete the
// work of an interrupted podrun process. After a container has been started, podrun undoes nothing.
var containerSteps = []step[*batch]{
	{"volumes", (*Starter).ensureVolumes, nil},
	{"checkpoint", (*Starter).syncCheckpoint, nil},
	{"images", (*Starter).awaitAllImages, nil},
	{"check the decision", (*Starter).checkDecision, nil},
	{"create", (*Starter).createAll, nil},
	{"mark hook", (*Starter).markHook, nil},
	{"keep the pod", (*Starter).noteStart, nil},
	{"start", (*Starter).startAll, nil},
	{"postStart hook", (*Starter).runHook, nil},
}
