/*
 * podrun-oci ARG...
 *
 * The OCI runtime of an ordinary user (docs/design/rootless.md). It executes
 * runc of its own directory or, if an argument is the name of a command that
 * creates a container, podrun-oci-create, which first changes the container's
 * configuration. Such an argument may also be an ID or the value of an option:
 * podrun-oci-create then changes nothing.
 *
 * containerd's shim starts an OCI runtime 12 times for the start and the delete
 * of a pod with one container, and 2 of these calls create a container. For the
 * others, the start of a Go program would only take time. Without libc: see
 * pause.c.
 */

#define NAME "podrun-oci"
#define FAILURE 1
#include "../system.h"

#if defined(__x86_64__)
enum { SYS_readlinkat = 267 };
#else
enum { SYS_readlinkat = 78 };
#endif

#define RUNC "runc"
#define CREATE NAME "-create"
#define OWN "/proc/self/exe"

static int is_create(char **arguments)
{
	for (; *arguments; arguments++)
		if (is_equal(*arguments, "create") || is_equal(*arguments, "run") || is_equal(*arguments, "restore"))
			return 1;
	return 0;
}

__attribute__((noreturn, used)) void start(long *stack)
{
	static char path[PATH + sizeof(CREATE)];
	long count = stack[0], size;
	char **arguments = (char **)(stack + 1);
	const char *program;

	if (count < 1)
		fail("usage: podrun-oci ARG...", "", 0);
	size = call(SYS_readlinkat, AT_FDCWD, OWN, path, PATH);
	if (size < 0)
		fail("read ", OWN, size);
	if (size == PATH || path[0] != '/')
		fail("no absolute path of at most 4095 bytes: ", path, 0);
	while (path[size - 1] != '/')
		size--;
	program = is_create(arguments + 1) ? CREATE : RUNC;
	do
		path[size++] = *program;
	while (*program++);
	arguments[0] = path;
	execute(arguments, arguments + count + 1);
}
