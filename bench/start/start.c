/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * start.c - measures making and destroying communicators, a window and device communicators
 *
 *	mpirun -n N start FILE		ranks find each other by PMIx
 *	start --id N			forks N ranks, which use unique ids
 *	start --root N			forks N ranks, which use GIN_ROOT
 */
#include <gin.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"
#include "stage.h"

#define WINDOW_BYTES (1 << 20)
#define MANY_CONTEXTS 64

/* A rank. It makes communicators with `id` or, if `id` is NULL, with ginCommInit(). */
struct start {
	struct stage stage;
	ginConfig_t config;
	const ginUniqueId_t *id; /* [2] */
};

static void check(const char *what, ginResult_t result)
{
	if (result != ginSuccess)
		stageDie(what, ginGetLastError());
}

static ginComm_t makeComm(struct start *s, int number)
{
	ginComm_t comm;

	s->config = (ginConfig_t)GIN_CONFIG_INIT;
	if (!getenv("START_ON_GPUS"))
		s->config.device = GIN_DEVICE_NONE; /* libgin does not load the CUDA driver */
	if (s->id)
		check("ginCommInitRank", ginCommInitRank(&s->config, &s->id[number], s->stage.rank,
							 s->stage.nRanks, &comm));
	else
		check("ginCommInit", ginCommInit(&s->config, &comm));
	return comm;
}

static ginDevComm makeDevComm(ginComm_t comm, uint32_t contexts)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginDevComm dc;

	want.contexts = contexts;
	check("ginDevCommCreate", ginDevCommCreate(comm, &want, &dc));
	return dc;
}

static ginComm_t makeHalf(ginComm_t comm, int rank)
{
	ginComm_t half;

	check("ginCommSplit", ginCommSplit(comm, rank % 2, rank, &half));
	return half;
}

/* Measures windows and device communicators. */
static void useComm(struct stage *s, ginComm_t comm)
{
	ginWindow_t window;
	void *memory;

	check("ginMemAlloc", ginMemAlloc(comm, WINDOW_BYTES, &memory));
	stageBegin(s, "window");
	check("ginWindowRegister", ginWindowRegister(comm, memory, WINDOW_BYTES, 0, &window));
	stageEnd(s);
	stageUse(s, "window");
	stageBegin(s, "devcomm");
	ginDevComm dc = makeDevComm(comm, 1);
	stageEnd(s);
	stageUse(s, "devcomm");
	stageBegin(s, "contexts");
	ginDevComm many = makeDevComm(comm, MANY_CONTEXTS);
	stageEnd(s);

	stageBegin(s, "free");
	check("ginDevCommDestroy", ginDevCommDestroy(comm, &many));
	check("ginDevCommDestroy", ginDevCommDestroy(comm, &dc));
	check("ginWindowDeregister", ginWindowDeregister(comm, window));
	stageEnd(s);
	check("ginMemFree", ginMemFree(comm, memory));
}

static void run(struct start *start)
{
	struct stage *s = &start->stage;

	stageUse(s, "none");
	stageBegin(s, "first");
	ginComm_t comm = makeComm(start, 0);
	stageEnd(s);
	stageUse(s, "first");
	stageBegin(s, "second");
	ginComm_t second = makeComm(start, 1);
	stageEnd(s);
	stageUse(s, "second");
	stageBegin(s, "split");
	ginComm_t half = makeHalf(comm, s->rank);
	stageEnd(s);
	check("ginCommDestroy", ginCommDestroy(half));
	useComm(s, comm);
	check("ginCommDestroy", ginCommDestroy(second));
	stageBegin(s, "destroy");
	check("ginCommDestroy", ginCommDestroy(comm));
	stageEnd(s);
	stageReport(s);
}

static int runLaunched(const char *path)
{
	const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *size = getenv("OMPI_COMM_WORLD_SIZE");
	const char *local = getenv("OMPI_COMM_WORLD_LOCAL_RANK");

	if (!rank || !size || !local || atoi(size) > STAGE_RANKS)
		stageDie(path, "start with Open MPI's mpirun");
	struct start start = {
		.stage = {.shared = stageShare(path), .rank = atoi(rank), .nRanks = atoi(size)}};

	if (getenv("START_ON_GPUS"))
		gpuOpen(atoi(local));
	run(&start);
	return 0;
}

/* Sets GIN_ROOT to a port that is free at this moment. */
static void chooseRoot(int nRanks)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t length = sizeof(at);
	char text[64];
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) ||
	    getsockname(fd, (struct sockaddr *)&at, &length))
		stageDie("GIN_ROOT", "no free port");
	close(fd);
	snprintf(text, sizeof(text), "127.0.0.1:%u", ntohs(at.sin_port));
	setenv("GIN_ROOT", text, 1);
	snprintf(text, sizeof(text), "%d", nRanks);
	setenv("WORLD_SIZE", text, 1);
}

static void runChild(struct start *start, int rank)
{
	char text[16];

	start->stage.rank = rank;
	snprintf(text, sizeof(text), "%d", rank);
	setenv("RANK", text, 1);
	if (getenv("START_ON_GPUS"))
		gpuOpen(rank);
	run(start);
	exit(0);
}

/* Ends all children when one fails: the others would wait for it. */
static int awaitChildren(const pid_t *child, int n)
{
	int status, failed = 0;

	for (int ended = 0; ended < n; ended++) {
		if (wait(&status) < 0)
			return 1;
		if (status && !failed)
			for (int r = 0; r < n; r++)
				kill(child[r], SIGTERM);
		failed |= status != 0;
	}
	return failed;
}

static int runForks(int byId, int n)
{
	static ginUniqueId_t id[2];
	static pid_t child[STAGE_RANKS];
	struct start start = {.stage = {.nRanks = n}, .id = byId ? id : NULL};

	if (n < 1 || n > STAGE_RANKS)
		stageDie("usage", "start --id|--root N");
	start.stage.shared = stageShare(NULL);
	if (byId) {
		check("ginGetUniqueId", ginGetUniqueId(&id[0]));
		check("ginGetUniqueId", ginGetUniqueId(&id[1]));
	} else {
		chooseRoot(n);
	}
	for (int r = 0; r < n; r++) {
		child[r] = fork();
		if (child[r] < 0)
			stageDie("fork", "no more processes");
		if (!child[r])
			runChild(&start, r);
	}
	return awaitChildren(child, n);
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--id"))
		return runForks(1, atoi(argv[2]));
	if (argc == 3 && !strcmp(argv[1], "--root"))
		return runForks(0, atoi(argv[2]));
	if (argc == 2)
		return runLaunched(argv[1]);
	stageDie("usage", "mpirun -n N start FILE | start --id|--root N");
}
