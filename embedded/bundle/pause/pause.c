/*
 * The process of a sandbox: it holds the pod's namespaces, and as process 1 of
 * a shared PID namespace it reaps what containers leave. It ends on SIGTERM and
 * SIGINT. Same contract as the pause of Kubernetes, whose image a host without
 * a network cannot pull.
 *
 * Without libc: three system calls, so that the program is 1 kB, needs no
 * notices of a libc, and builds alike with every compiler.
 */

#if defined(__x86_64__)
enum { SYS_sigprocmask = 14, SYS_wait4 = 61, SYS_sigtimedwait = 128, SYS_exit_group = 231 };
#elif defined(__aarch64__)
enum { SYS_wait4 = 260, SYS_exit_group = 94, SYS_sigprocmask = 135, SYS_sigtimedwait = 137 };
#else
#error "pause: not written for this architecture"
#endif

enum { SIGINT = 2, SIGTERM = 15, SIGCHLD = 17, SIG_BLOCK = 0, WNOHANG = 1 };

static long call(long number, long a, const void *b, const void *c, long d)
{
#if defined(__x86_64__)
	long result;
	register long r10 __asm__("r10") = d;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
#else
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register const void *x1 __asm__("x1") = b;
	register const void *x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
#endif
}

/*
 * The signals are blocked and taken synchronously. That needs no handler, and
 * none is lost: the kernel keeps a blocked signal even for process 1, which it
 * otherwise spares signals without a handler.
 */
__attribute__((noreturn, used)) void _start(void)
{
	const unsigned long set = 1UL << (SIGINT - 1) | 1UL << (SIGTERM - 1) | 1UL << (SIGCHLD - 1);

	call(SYS_sigprocmask, SIG_BLOCK, &set, 0, sizeof(set));
	for (;;) {
		long signal = call(SYS_sigtimedwait, (long)&set, 0, 0, sizeof(set));

		if (signal == SIGINT || signal == SIGTERM)
			break;
		/* One SIGCHLD may stand for several children. */
		while (call(SYS_wait4, -1, 0, (void *)WNOHANG, 0) > 0)
			;
	}
	for (;;)
		call(SYS_exit_group, 0, 0, 0, 0);
}
