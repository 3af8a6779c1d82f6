/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * expect.h - what the C tests assert
 *
 * A failure prints the expected and the seen value, and ends the process at once: the other ranks
 * then see this one as dead.
 */
#ifndef GIN_TEST_EXPECT_H
#define GIN_TEST_EXPECT_H

#include <gin.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPECT(condition) expectThat((condition) != 0, __FILE__, __LINE__, "%s", #condition)
#define EXPECT_EQUAL(seen, expected)                                                               \
	expectEqual((long long)(seen), (long long)(expected), #seen, __FILE__, __LINE__)
#define EXPECT_TEXT(seen, expected)                                                                \
	expectThat(!strcmp(seen, expected), __FILE__, __LINE__, "%s is \"%s\", expected \"%s\"",   \
		   #seen, seen, expected)
#define EXPECT_HAS(text, words) expectHas(text, words, #text, __FILE__, __LINE__)

#define EXPECT_RESULT(call, result) expectResult(call, result, #call, __FILE__, __LINE__)
#define EXPECT_SUCCESS(call) EXPECT_RESULT(call, ginSuccess)

/* Also words that ginGetLastError() must have, in any order. */
#define EXPECT_FAILS(call, result, ...)                                                            \
	do {                                                                                       \
		expectResult(call, result, #call, __FILE__, __LINE__);                             \
		expectWords(#call, __FILE__, __LINE__, (const char *const[]){__VA_ARGS__, NULL});  \
	} while (0)

/* -1 with errno. */
#define EXPECT_ERRNO(call, reason) expectErrno(call, reason, #call, __FILE__, __LINE__)

__attribute__((format(printf, 4, 5))) static inline void
expectThat(int ok, const char *file, int line, const char *format, ...)
{
	char text[2048];
	va_list args;

	if (ok)
		return;
	int used = snprintf(text, sizeof(text), "%s:%d: pid %d: ", file, line, (int)getpid());
	va_start(args, format);
	vsnprintf(text + used, sizeof(text) - (size_t)used - 1, format, args);
	va_end(args);
	strcat(text, "\n");
	fflush(stdout);
	ssize_t written = write(STDERR_FILENO, text, strlen(text)); /* lines of ranks do not mix */
	_exit(written > 0 ? 1 : 2);
}

static inline void expectEqual(long long seen, long long expected, const char *what,
			       const char *file, int line)
{
	expectThat(seen == expected, file, line, "%s is %lld, expected %lld", what, seen, expected);
}

static inline void expectErrno(int seen, int reason, const char *call, const char *file, int line)
{
	expectThat(seen == -1 && errno == reason, file, line, "%s: %d (%s), expected -1 (%s)", call,
		   seen, seen ? strerror(errno) : "success", strerror(reason));
}

static inline void expectHas(const char *text, const char *words, const char *what,
			     const char *file, int line)
{
	expectThat(strstr(text, words) != NULL, file, line, "%s is \"%s\", without \"%s\"", what,
		   text, words);
}

static inline void expectResult(ginResult_t seen, ginResult_t expected, const char *call,
				const char *file, int line)
{
	expectThat(seen == expected, file, line, "%s: %s (%d), expected %s (%d); last error: %s",
		   call, ginGetErrorString(seen), seen, ginGetErrorString(expected), expected,
		   ginGetLastError());
}

static inline void expectWords(const char *call, const char *file, int line,
			       const char *const *words)
{
	for (; *words; words++)
		expectHas(ginGetLastError(), *words, call, file, line);
}

/* Tests of this program that failed in a process of their own. */
static int expectFailures;

/*
 * Runs `body` in a process of its own, which reads environment variables again and starts without
 * threads. Later tests run even if it fails.
 */
static inline void expectChild(const char *name, void (*body)(void))
{
	int status = 0;

	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		body();
		exit(0); /* with atexit: sanitizers report */
	}
	expectThat(child > 0 && waitpid(child, &status, 0) == child, __FILE__, __LINE__, "fork: %s",
		   strerror(errno));
	if (status == 0) {
		printf("ok: %s\n", name);
		return;
	}
	printf("failed: %s: %s %d\n", name, WIFSIGNALED(status) ? "signal" : "exit status",
	       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	expectFailures++;
}

#endif
