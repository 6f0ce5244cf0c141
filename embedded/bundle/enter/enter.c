/*
 * podrun-enter PID STARTTIME -- PROGRAM ARG...
 * podrun-enter --wait
 *
 * Enters the user namespace and the mount namespace of a process, and executes
 * PROGRAM there, with the same PID, descriptors, environment and, if it exists
 * there, working directory. STARTTIME is field 22 of /proc/PID/stat: it
 * identifies the process, because the kernel reuses PIDs.
 *
 * If the process has ended, it executes PROGRAM without entering: podrun then
 * finds that no process is left, and starts a new one. Other errors: exit
 * code 126.
 *
 * With --wait, it waits for a signal that ends it. Such a process keeps the cgroup
 * of a service of systemd (docs/design/rootless.md).
 *
 * A Go program has several threads, and the kernel refuses setns(CLONE_NEWUSER)
 * for these. Without libc: see pause.c.
 */

#define NAME "podrun-enter"
#define FAILURE 126
#include "../system.h"

#if defined(__x86_64__)
enum { SYS_read = 0, SYS_getcwd = 79, SYS_chdir = 80, SYS_openat = 257, SYS_ppoll = 271, SYS_setns = 308 };
enum { O_DIRECTORY = 0200000 };
#else
enum { SYS_getcwd = 17, SYS_chdir = 49, SYS_openat = 56, SYS_read = 63, SYS_ppoll = 73, SYS_setns = 268 };
enum { O_DIRECTORY = 040000 };
#endif

enum { O_RDONLY = 0, O_CLOEXEC = 02000000, ENOENT = 2, ESRCH = 3 };
enum { CLONE_NEWNS = 0x20000, CLONE_NEWUSER = 0x10000000 };

static int is_number(const char *s)
{
	unsigned long n = length(s), i;

	for (i = 0; i < n; i++)
		if (s[i] < '0' || s[i] > '9')
			return 0;
	return n > 0 && n < NUMBER;
}

static long open_at(long dir, const char *path, long flags)
{
	return call(SYS_openat, dir, path, (void *)(flags | O_CLOEXEC), 0);
}

/*
 * The start time follows the name of the program, which may contain any
 * character, including parentheses, and 19 other fields.
 */
static int has_start_time(char *stat, long size, const char *want)
{
	long at = size, field, i;

	while (at > 0 && stat[at - 1] != ')')
		at--;
	for (field = 2; field < 22 && at < size; at++)
		if (stat[at] == ' ')
			field++;
	for (i = 0; want[i]; i++)
		if (at + i >= size || stat[at + i] != want[i])
			return 0;
	return at + i < size && stat[at + i] == ' ';
}

/*
 * enter returns 0 if the process has ended. The descriptor of its directory in
 * /proc remains valid only as long as this process, not another one with the
 * same PID, exists.
 */
static int enter_namespaces(const char *pid, const char *start_time)
{
	static char path[sizeof("/proc/") + NUMBER], stat[PATH];
	unsigned long i;
	long process, user, mount, file, size, error;

	for (i = 0; i < sizeof("/proc/") - 1; i++)
		path[i] = "/proc/"[i];
	for (i = 0; pid[i]; i++)
		path[sizeof("/proc/") - 1 + i] = pid[i];
	process = open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
	if (process == -ENOENT)
		return 0;
	if (process < 0)
		fail("open ", path, process);
	file = open_at(process, "stat", O_RDONLY);
	size = file < 0 ? file : call(SYS_read, file, stat, (void *)sizeof(stat), 0);
	user = open_at(process, "ns/user", O_RDONLY);
	mount = open_at(process, "ns/mnt", O_RDONLY);
	if (size == -ESRCH || size == -ENOENT || user == -ESRCH || user == -ENOENT || mount == -ESRCH || mount == -ENOENT)
		return 0;
	if (size < 0)
		fail("read stat of ", path, size);
	if (!has_start_time(stat, size, start_time))
		return 0;
	if (user < 0)
		fail("open the user namespace of ", path, user);
	if (mount < 0)
		fail("open the mount namespace of ", path, mount);
	/* First U: its capabilities are necessary for M. */
	error = call(SYS_setns, user, (void *)CLONE_NEWUSER, 0, 0);
	if (error < 0)
		fail("enter the user namespace of ", path, error);
	error = call(SYS_setns, mount, (void *)CLONE_NEWNS, 0, 0);
	if (error < 0)
		fail("enter the mount namespace of ", path, error);
	return 1;
}

__attribute__((noreturn, used)) void start(long *stack)
{
	static char directory[PATH];
	long count = stack[0];
	char **arguments = (char **)(stack + 1);

	if (count == 2 && is_equal(arguments[1], "--wait"))
		for (;;)
			call(SYS_ppoll, 0, 0, 0, 0);
	if (count < 5 || !is_number(arguments[1]) || !is_number(arguments[2]) || arguments[3][0] != '-' || arguments[3][1] != '-' || arguments[3][2])
		fail("usage: podrun-enter PID STARTTIME -- PROGRAM ARG...", "", 0);
	/* setns for M changes the working directory to the root. */
	if (call(SYS_getcwd, (long)directory, (void *)sizeof(directory), 0, 0) < 0 || directory[0] != '/')
		directory[0] = 0;
	if (enter_namespaces(arguments[1], arguments[2]) && directory[0])
		call(SYS_chdir, (long)directory, 0, 0, 0); /* or "/" */
	execute(arguments + 4, arguments + count + 1);
}
