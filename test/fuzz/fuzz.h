/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz.h - a fuzz target: the function fuzzOne(), which reads bytes of others by production code
 *
 * test/fuzz/run compiles a target with -DGIN_FUZZ, and libFuzzer calls fuzzOne(). Without GIN_FUZZ
 * a target is an ordinary test:
 *
 *	fuzz_NAME [FILE|DIRECTORY]...	replays files; default: test/fuzz/corpus/NAME
 *
 * A target ends the process by EXPECT() when it finds an error.
 */
#ifndef GIN_TEST_FUZZ_H
#define GIN_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef GIN_FUZZ
#define _exit(code) ((void)(code), abort()) /* libFuzzer keeps the input of a crash */
#endif
#include "expect.h"

/* The rest of an input. Beyond its end there are zeros. */
struct fuzzInput {
	const uint8_t *at;
	size_t left;
};

static void fuzzOne(struct fuzzInput *in);

static inline size_t fuzzTake(struct fuzzInput *in, void *out, size_t bytes)
{
	size_t taken = bytes < in->left ? bytes : in->left;

	memset(out, 0, bytes);
	memcpy(out, in->at, taken);
	in->at += taken;
	in->left -= taken;
	return taken;
}

static inline uint8_t fuzzByte(struct fuzzInput *in)
{
	uint8_t byte;

	fuzzTake(in, &byte, sizeof(byte));
	return byte;
}

static inline uint16_t fuzzShort(struct fuzzInput *in)
{
	uint16_t number;

	fuzzTake(in, &number, sizeof(number));
	return number;
}

static inline uint64_t fuzzWord(struct fuzzInput *in)
{
	uint64_t word;

	fuzzTake(in, &word, sizeof(word));
	return word;
}

/* The next bytes of the input; fewer than `bytes` at its end. */
static inline struct fuzzInput fuzzPart(struct fuzzInput *in, size_t bytes)
{
	struct fuzzInput part = {in->at, bytes < in->left ? bytes : in->left};

	in->at += part.left;
	in->left -= part.left;
	return part;
}

#ifdef GIN_FUZZ

#ifdef __cplusplus
extern "C" {
#endif
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerInitialize(int *argc, char ***argv);
#ifdef __cplusplus
}
#endif

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	setenv("GIN_LOG", "none", 1);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzzInput in = {data, bytes};

	fuzzOne(&in);
	return 0;
}

#else

#include <dirent.h>
#include <sys/stat.h>

/* Returns the number of replayed files. */
static inline int fuzzReplay(const char *path)
{
	struct stat info;
	struct dirent **list;
	char name[4096];
	int count = 0;

	if (stat(path, &info)) {
		perror(path);
		exit(1);
	}
	if (!S_ISDIR(info.st_mode)) {
		FILE *file = fopen(path, "re");
		uint8_t *data = (uint8_t *)malloc((size_t)info.st_size + 1);
		EXPECT(file && data);
		struct fuzzInput in = {data, fread(data, 1, (size_t)info.st_size, file)};
		fclose(file);
		fprintf(stderr, "%s\n", path); /* in the log, before a crash */
		fuzzOne(&in);
		free(data);
		return 1;
	}
	int n = scandir(path, &list, NULL, alphasort);
	EXPECT(n >= 0);
	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%s/%s", path, list[i]->d_name);
		if (list[i]->d_name[0] != '.')
			count += fuzzReplay(name);
		free(list[i]);
	}
	free(list);
	return count;
}

int main(int argc, char **argv)
{
	const char *base = strrchr(argv[0], '/'), *target = strstr(base ? base : argv[0], "fuzz_");
	char corpus[256];
	int count = 0;

	setenv("GIN_LOG", "none", 0);
	EXPECT(target != NULL);
	snprintf(corpus, sizeof(corpus), "test/fuzz/corpus/%s", target + strlen("fuzz_"));
	for (int i = 1; i < argc; i++)
		count += fuzzReplay(argv[i]);
	if (argc == 1)
		count = fuzzReplay(corpus);
	printf("%s: %d inputs\n", target, count);
	EXPECT(count > 0);
	return 0;
}

#endif
#endif
