/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_handles.c - a rank is killed while its socket for descriptors has a name: the other ranks end,
 * and remove the name
 *
 * The library's calls of bind() and unlink() come here.
 */
#include "expect.h"
#include "ranks.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static int victim = -1;	 /* set in the victim's process */
static int killInUnlink; /* else in bind() */

int bind(int fd, const struct sockaddr *address, socklen_t length)
{
	int result = (int)syscall(SYS_bind, fd, address, length);

	if (victim >= 0 && !killInUnlink && address->sa_family == AF_UNIX) {
		EXPECT(!result);
		raise(SIGKILL);
	}
	return result;
}

int unlink(const char *path)
{
	if (victim >= 0 && killInUnlink && strstr(path, "/gin-"))
		raise(SIGKILL);
	return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

/* After the last agreement, a rank may not know yet that the victim is dead. */
static int openBesideVictim(const ginConfig_t *config, int rank)
{
	ginConfig_t host = *config;
	ginComm_t comm = NULL;

	host.device = GIN_DEVICE_NONE;
	if (config->rank == rank)
		victim = rank;
	ginResult_t result = ginCommInit(&host, &comm);
	expectThat(result == ginErrorPeer || (result == ginSuccess && killInUnlink), __FILE__,
		   __LINE__, "%s", ginGetLastError());
	if (result != ginSuccess)
		EXPECT_HAS(ginGetLastError(), "has died");
	ginCommDestroy(comm);
	return 0;
}

static int lastDies(const ginConfig_t *config)
{
	return openBesideVictim(config, config->nRanks - 1);
}

static int firstDies(const ginConfig_t *config)
{
	return openBesideVictim(config, 0);
}

static int files(const char *directory)
{
	DIR *dir = opendir(directory);
	const struct dirent *entry;
	int count = 0;

	EXPECT(dir != NULL);
	while ((entry = readdir(dir)))
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

static void expectNoNames(int (*run)(const ginConfig_t *config), int rank)
{
	char directory[] = "/tmp/unit_handles-XXXXXX";

	EXPECT(mkdtemp(directory) != NULL);
	setenv("TMPDIR", directory, 1);
	for (killInUnlink = 0; killInUnlink < 2; killInUnlink++) {
		const int *result = ranksStart(4, 0, run);
		for (int r = 0; r < 4; r++)
			EXPECT_EQUAL(result[r], r == rank ? 128 + SIGKILL : 0);
		EXPECT_EQUAL(files(directory), 0);
	}
	EXPECT(!rmdir(directory));
}

static void last(void)
{
	expectNoNames(lastDies, 3);
}

static void first(void)
{
	expectNoNames(firstDies, 0);
}

int main(void)
{
	setenv("GIN_LOG", "none", 0);
	setenv("GIN_TIMEOUT", "60", 0);
	expectChild("the last rank is killed", last);
	expectChild("rank 0 is killed", first);
	return expectFailures != 0;
}
