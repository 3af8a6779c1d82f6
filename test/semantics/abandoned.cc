/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * abandoned.cc - communicators fail one after the other in processes that go on: descriptors and
 * mappings of libgin do not add up
 *
 *	abandoned [--threads|--forks]	two ranks, which are processes by default
 *
 * Each round, one rank aborts. One of the ranks destroys its communicator a round later: until
 * then, it may write into memory of the other rank. ROUNDS rounds, 100 by default.
 */
#include "harness.h"

#include <dirent.h>
#include <string.h>

#include <string>

enum { CALM_ROUNDS = 10 }; /* after these, everything has been allocated once */

struct Made {
	ginComm_t comm;
	ginDevComm dc;
};

static Made make(const ginConfig_t *config)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	Made made = {};

	CHECK(ginCommInit(config, &made.comm));
	CHECK(ginDevCommCreate(made.comm, &want, &made.dc));
	return made;
}

/* Calls return the error of the communicator. */
static void destroy(Made *made)
{
	if (!made->comm)
		return;
	ginDevCommDestroy(made->comm, &made->dc);
	ginCommDestroy(made->comm);
	made->comm = nullptr;
}

static void awaitFailure(ginComm_t comm)
{
	ginResult_t error = ginSuccess;

	alarm(60);
	while (error == ginSuccess) {
		CHECK(ginCommGetAsyncError(comm, &error));
		usleep(100);
	}
	alarm(0);
}

/* Waits for the other rank, without a communicator. */
static void meetOther(const ginConfig_t *config)
{
	char mine = 0, both[2];

	EXPECT(!config->allgather(config->allgatherArg, &mine, both, sizeof(mine)));
}

/* Mappings of memory that libgin has allocated, and descriptors of it. */
struct Holdings {
	int mappings, descriptors;
};

static Holdings holdings()
{
	FILE *maps = fopen("/proc/self/maps", "re");
	DIR *files = opendir("/proc/self/fd");
	char line[512];
	Holdings now = {};

	EXPECT(maps && files);
	while (fgets(line, sizeof(line), maps))
		now.mappings += strstr(line, "memfd:libgin") != nullptr;
	while (const dirent *entry = readdir(files)) {
		std::string path = std::string("/proc/self/fd/") + entry->d_name;
		ssize_t length = readlink(path.c_str(), line, sizeof(line) - 1);
		line[length > 0 ? length : 0] = '\0';
		now.descriptors += strstr(line, "memfd:libgin") != nullptr;
	}
	fclose(maps);
	closedir(files);
	return now;
}

static int run(const ginConfig_t *config)
{
	int rounds = static_cast<int>(numberOr("ROUNDS", 100));
	Made last = {};
	Holdings before = {}, after;

	for (int i = 0; i < CALM_ROUNDS + rounds; i++) {
		Made made = make(config);
		if (i % 2 == config->rank)
			CHECK(ginCommAbort(made.comm));
		awaitFailure(made.comm);
		destroy(&last);
		if (i / 2 % 2 == config->rank)
			last = made;
		else
			destroy(&made);
		meetOther(config); /* ranks that are threads have one process */
		if (i == CALM_ROUNDS - 1)
			before = holdings();
		meetOther(config);
	}
	after = holdings();
	meetOther(config);
	destroy(&last);
	printf("rank %d: %d mappings and %d descriptors after %d rounds, %d and %d after %d more\n",
	       config->rank, before.mappings, before.descriptors, CALM_ROUNDS, after.mappings,
	       after.descriptors, rounds);
	EXPECT(after.mappings <= before.mappings && after.descriptors <= before.descriptors);
	return 0;
}

int main(int argc, char **argv)
{
	setenv("GIN_LOG", "none", 0);
	const int *result = ranksStart(2, argc > 1 && !strcmp(argv[1], "--threads"), run);
	return result[0] || result[1];
}
