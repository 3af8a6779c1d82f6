/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts.c - with NAMED_HOSTS set, nccl_ep sees a host name for each rank of MPI
 *
 * nccl_ep takes ranks of one host for one NVLink domain, by their host names: with two domains it
 * leaves a buffer out that its kernels write. By GIN_ROUTE=network each rank is a domain of its
 * own, so products/nccl/test/programs/run links this file into ep_test. All other callers get the
 * real name: ep_test itself counts the ranks of its host to choose a GPU.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int hostName(char *name, size_t room);

static int isNcclEp(const void *caller)
{
	Dl_info info;

	return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "/libnccl_ep.");
}

int gethostname(char *name, size_t room)
{
	hostName *real = (hostName *)dlsym(RTLD_NEXT, "gethostname");
	const char *rank = getenv("OMPI_COMM_WORLD_RANK");

	if (rank && getenv("NAMED_HOSTS") && isNcclEp(__builtin_return_address(0))) {
		snprintf(name, room, "host%s", rank);
		return 0;
	}
	return real ? real(name, room) : -1;
}
