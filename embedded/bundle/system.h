/*
 * The start, system calls and messages of a program without libc. The program
 * defines NAME, its name in messages, and FAILURE, its exit code after an error,
 * and the function start, whose argument is the initial stack: the number of
 * arguments, the arguments, NULL, the environment, NULL.
 */

#if defined(__x86_64__)
enum { SYS_write = 1, SYS_execve = 59, SYS_exit_group = 231 };
__asm__(".globl _start\n_start:\n\tmov %rsp, %rdi\n\txor %ebp, %ebp\n\tand $-16, %rsp\n\tcall start\n");
#elif defined(__aarch64__)
enum { SYS_write = 64, SYS_exit_group = 94, SYS_execve = 221 };
__asm__(".globl _start\n_start:\n\tmov x29, #0\n\tmov x0, sp\n\tbl start\n");
#else
#error "not written for this architecture"
#endif

enum { AT_FDCWD = -100, NUMBER = 20, PATH = 4096 };

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

static unsigned long length(const char *s)
{
	unsigned long n = 0;

	while (s[n])
		n++;
	return n;
}

static int is_equal(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

static void print(const char *s)
{
	call(SYS_write, 2, s, (void *)length(s), 0);
}

__attribute__((noreturn)) static void fail(const char *what, const char *object, long error)
{
	char number[NUMBER + 1] = {0};
	int at = NUMBER;

	for (error = -error; error > 0 && at > 0; error /= 10)
		number[--at] = (char)('0' + error % 10);
	print(NAME ": ");
	print(what);
	print(object);
	if (at < NUMBER) {
		print(": errno ");
		print(number + at);
	}
	print("\n");
	for (;;)
		call(SYS_exit_group, FAILURE, 0, 0, 0);
}

__attribute__((noreturn)) static void execute(char **arguments, char **environment)
{
	long error = call(SYS_execve, (long)arguments[0], arguments, environment, 0);

	fail("execute ", arguments[0], error);
}
