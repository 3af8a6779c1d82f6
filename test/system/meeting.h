/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * meeting.h - how ranks without a launcher find each other: RANK and WORLD_SIZE number them, and
 * they meet by GIN_ROOT or by the folder MEET, which all ranks share
 */
#ifndef GIN_TEST_MEETING_H
#define GIN_TEST_MEETING_H

#include "suite.h"

#include <fcntl.h>

#include <string>

/* An allgather by files of a folder, as a program could have it. */
struct Folder {
	std::string path;
	int rank, nRanks;
	int calls;
};

inline std::string fileOf(const Folder &folder, int rank)
{
	return folder.path + "/gather." + std::to_string(folder.calls) + "." + std::to_string(rank);
}

/* A file is there when it is complete. */
inline void leave(const std::string &name, const void *data, size_t bytes)
{
	std::string part = name + ".part";
	int fd = open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	EXPECT(fd >= 0 && write(fd, data, bytes) == static_cast<ssize_t>(bytes) && !close(fd));
	EXPECT(!rename(part.c_str(), name.c_str()));
}

inline void collect(const std::string &name, void *data, size_t bytes)
{
	int fd;

	while ((fd = open(name.c_str(), O_RDONLY | O_CLOEXEC)) < 0)
		usleep(1000);
	EXPECT(read(fd, data, bytes) == static_cast<ssize_t>(bytes) && !close(fd));
}

inline int gatherByFiles(void *arg, const void *in, void *out, size_t bytes)
{
	Folder *folder = static_cast<Folder *>(arg);

	leave(fileOf(*folder, folder->rank), in, bytes);
	for (int r = 0; r < folder->nRanks; r++)
		collect(fileOf(*folder, r), static_cast<char *>(out) + r * bytes, bytes);
	folder->calls++;
	return 0;
}

inline const char *variable(const char *name)
{
	const char *value = getenv(name);
	return value ? value : "";
}

/* By the launcher or GIN_ROOT, or by MEET. */
inline ginConfig_t worldConfig()
{
	static Folder world;
	ginConfig_t config = GIN_CONFIG_INIT;

	if (*variable("GIN_ROOT") || !*variable("MEET"))
		return config;
	world = {variable("MEET"), atoi(variable("RANK")), atoi(variable("WORLD_SIZE")), 0};
	config.allgather = gatherByFiles;
	config.allgatherArg = &world;
	config.rank = world.rank;
	config.nRanks = world.nRanks;
	return config;
}

#endif
