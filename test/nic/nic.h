/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic.h - for tests of libgin-rdma.so: its calls, and the software device's control socket
 *
 * Without mlx5/dev/with-device they run on the machine's hardware, or are skipped.
 */
#ifndef GIN_TEST_NIC_H
#define GIN_TEST_NIC_H

#include "backends/rdma/rdma.h"
#include "lib/base/plugin.h"
#include "expect.h"

#include <sys/socket.h>
#include <sys/un.h>

static const struct rdma *nic;
static char nicWhy[RDMA_WHY];

#define EXPECT_NIC(call) expectNic(call, #call, __FILE__, __LINE__)
#define EXPECT_REFUSED(call, words)                                                                \
	do {                                                                                       \
		strcpy(nicWhy, "");                                                                \
		EXPECT_EQUAL(call, -1);                                                            \
		EXPECT_HAS(nicWhy, words);                                                         \
		printf("ok: %s\n", nicWhy);                                                        \
	} while (0)

static inline void expectNic(int result, const char *call, const char *file, int line)
{
	expectThat(result >= 0, file, line, "%s: %s", call, nicWhy);
}

static inline void nicLoad(void)
{
	static const struct plugin plugin = {"libgin-rdma.so", RDMA_SYMBOL, sizeof(struct rdma)};
	const void *calls = NULL;

	expectThat(pluginOpen(&plugin, &calls, nicWhy, sizeof(nicWhy)) == pluginFound, __FILE__,
		   __LINE__, "%s", nicWhy);
	nic = calls;
}

static inline int nicIsSoftware(void)
{
	return getenv("MLX5DEV_DIR") != NULL;
}

/* Is the word in the software device's profile? */
static inline int nicProfile(const char *word)
{
	const char *profile = getenv("MLX5DEV_PROFILE");

	return profile && strstr(profile, word);
}

/* Ends a test that needs the software device, and one that needs its atomics. */
static inline void nicNeedSoftware(void)
{
	if (nicIsSoftware())
		return;
	printf("there is no software mlx5 device: mlx5/dev/with-device\n");
	exit(77);
}

static inline void nicNeedAtomics(void)
{
	nicNeedSoftware();
	if (!nicProfile("noatomics"))
		return;
	printf("the software mlx5 device has no atomics\n");
	exit(77);
}

/*
 * Does the software device have an adversary with this word, `weakcqe`, or any adversary with ""?
 */
static inline int nicAdversary(const char *word)
{
	const char *adversary = getenv("MLX5DEV_ADVERSARY");

	return adversary && strstr(adversary, word);
}

/* A word of mlx5/dev/README.md, for the device in this process. */
static inline void nicFault(const char *word)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char answer[256] = "";
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%.80s/control.%d",
		 getenv("MLX5DEV_DIR"), (int)getpid());
	EXPECT(!connect(fd, (struct sockaddr *)&address, sizeof(address)));
	EXPECT(send(fd, word, strlen(word), 0) > 0);
	EXPECT(recv(fd, answer, sizeof(answer) - 1, 0) > 0);
	EXPECT_TEXT(answer, "ok");
	close(fd);
}

#endif
