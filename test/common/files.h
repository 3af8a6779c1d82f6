/* SPDX-License-Identifier: BSD-3-Clause */
/* files.h - counts and prints the open files of this process. C11 and C++17 */
#ifndef GIN_TEST_FILES_H
#define GIN_TEST_FILES_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Without . and .. */
static inline int countEntries(const char *directory)
{
	DIR *dir = opendir(directory);
	int count = -2;

	if (!dir) {
		perror(directory);
		abort();
	}
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

/* With the descriptor that reads the directory. */
static inline int countFiles(void)
{
	return countEntries("/proc/self/fd");
}

static inline void printFiles(void)
{
	for (int fd = 0; fd < 1024; fd++) {
		char path[32], target[128];
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		ssize_t length = readlink(path, target, sizeof(target) - 1);
		if (length > 0)
			fprintf(stderr, "descriptor %d: %.*s\n", fd, (int)length, target);
	}
}

#endif
