/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory_check.c - does a process reach host memory that libgin has not allocated?
 *
 * The kernel's list of mappings tells what is mapped and how. A file may be shorter than its
 * mapping, and a file in memory may find no room for its pages: an access then ends in a SIGBUS, so
 * pages of files are looked at, too. Other memory is not touched: a large range, of which little is
 * used, costs nothing.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "memory.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* since Linux 5.14 */
#endif

/* The mapping that a line of the list describes. */
struct mapped {
	uintptr_t first, end;
	char access[5];		 /* "rwxp"; the last is s: shared */
	unsigned long long file; /* 0: of no file */
};

/* Without changing anything: the kernel reads the word before it refuses the first argument. */
static int isReadable(uintptr_t byte)
{
	return !syscall(SYS_rt_sigprocmask, -1, byte / 8 * 8, NULL, (size_t)8) || errno != EFAULT;
}

/*
 * Are the pages of a file there? Those of a shared mapping are made. Kernels and mappings that do
 * not know the advice answer EINVAL.
 */
static int hasPages(uintptr_t first, uintptr_t end, const struct mapped *m, int isTarget)
{
	uintptr_t page = first & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);

	if (!m->file)
		return 1;
	if (isTarget && m->access[3] == 's' &&
	    madvise((void *)page, end - page, MADV_POPULATE_READ) && errno != EINVAL)
		return 0;
	return isReadable(end - 1);
}

/* What is wrong with [first, end), which lies in the mapping; NULL: nothing. */
static const char *wrongIn(uintptr_t first, uintptr_t end, const struct mapped *m, int isTarget)
{
	if (m->access[0] != 'r')
		return "may not be read: map them with PROT_READ and PROT_WRITE";
	if (isTarget && m->access[1] != 'w')
		return "are read-only: map them with PROT_WRITE, or register a source with "
		       "GIN_WINDOW_LOCAL";
	if (!hasPages(first, end, m, isTarget))
		return "are not in their file, or have no room in memory: extend the file by "
		       "posix_fallocate()";
	return NULL;
}

static int nextMapping(FILE *list, char **line, size_t *room, struct mapped *m)
{
	while (getline(line, room, list) > 0)
		if (sscanf(*line, "%lx-%lx %4s %*s %*s %llu", &m->first, &m->end, m->access,
			   &m->file) == 4)
			return 1;
	return 0;
}

/* Returns what is wrong with [*first, *end), narrowed to the bytes concerned; NULL: nothing. */
static const char *search(FILE *list, uintptr_t *first, uintptr_t *end, int isTarget)
{
	const char *wrong = NULL;
	char *line = NULL;
	size_t room = 0;
	struct mapped m;

	while (!wrong && *first < *end && nextMapping(list, &line, &room, &m)) {
		if (m.end <= *first)
			continue;
		if (m.first > *first) {
			*end = m.first < *end ? m.first : *end;
			break;
		}
		uintptr_t last = m.end < *end ? m.end : *end;
		wrong = wrongIn(*first, last, &m, isTarget);
		if (wrong)
			*end = last;
		else
			*first = last;
	}
	free(line);
	if (!wrong && *first < *end)
		wrong = "are not mapped: the memory was never there, or has been freed";
	return wrong;
}

ginResult_t memoryCheck(const void *ptr, size_t bytes, int isTarget)
{
	uintptr_t first = (uintptr_t)ptr, end = first + bytes;
	FILE *list = fopen("/proc/self/maps", "re");

	if (!list && errno != ENOENT)
		return failErrno("ptr %p: cannot read /proc/self/maps", ptr);
	if (!list)
		return ginSuccess;
	const char *wrong = search(list, &first, &end, isTarget);
	fclose(list);
	if (!wrong)
		return ginSuccess;
	return fail(ginErrorInvalidArgument, "ptr %p with %zu bytes: the bytes from %p to %p %s",
		    ptr, bytes, (void *)first, (void *)end, wrong);
}
