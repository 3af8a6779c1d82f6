/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mlx5/dev/device/device.h"

struct options options = {
	.devices = 1,
	.atomics = true,
	.masked = true,
	.narrow = true,
	.relaxed = true,
	.dmabuf = true,
	.peermem = true,
	.generation = 7,
};

static const char *variable(const char *name, const char *otherwise)
{
	const char *value = getenv(name);

	return value && *value ? value : otherwise;
}

static void refuse(const char *name, const char *value)
{
	fprintf(stderr, "mlx5dev: %s: \"%s\" is not known: see mlx5/dev/README.md\n", name, value);
	exit(2);
}

/* NAME=NUMBER[/DEVICE]; without a device, all devices. */
static bool takeNumber(const char *word, const char *name, uint32_t numbers[DEVICES_MAX])
{
	size_t length = strlen(name);
	char *rest;

	if (strncmp(word, name, length) || word[length] != '=')
		return false;
	uint32_t number = (uint32_t)strtoul(word + length + 1, &rest, 10);
	for (int i = 0; i < DEVICES_MAX; i++)
		if (*rest != '/' || atoi(rest + 1) == i)
			numbers[i] = number;
	return true;
}

/* INDEX:[ADDRESS][%INTERFACE][/DEVICE]; without an address, the entry is empty. */
static bool takeGid(const char *word)
{
	struct optionGid gid = {.isSet = true};
	char address[INET6_ADDRSTRLEN] = "", v4[16], *rest;

	if (strncmp(word, "gid=", 4))
		return false;
	uint32_t index = (uint32_t)strtoul(word + 4, &rest, 10);
	if (*rest != ':' || index >= GIDS)
		return false;
	size_t length = strcspn(++rest, "%/");
	snprintf(address, sizeof(address), "%.*s", (int)length, rest);
	rest += length;
	gid.isEmpty = !length;
	if (length && inet_pton(AF_INET6, address, gid.bytes) != 1) {
		if (inet_pton(AF_INET, address, v4) != 1)
			return false;
		memset(gid.bytes + 10, 0xff, 2);
		memcpy(gid.bytes + 12, v4, 4);
	}
	if (*rest == '%')
		gid.interface = (uint32_t)strtoul(rest + 1, &rest, 10);
	for (int i = 0; i < DEVICES_MAX; i++)
		if (*rest != '/' || atoi(rest + 1) == i)
			options.gids[i][index] = gid;
	return true;
}

uint8_t optionsMtu(int device)
{
	uint32_t bytes = options.mtu[device];
	uint8_t mtu = 1;

	if (!bytes)
		bytes = options.roce ? 1024 : 4096;
	while (mtu < 5 && 256u << mtu <= bytes)
		mtu++;
	return mtu;
}

static void profileWord(const char *word)
{
	if (takeNumber(word, "mtu", options.mtu) || takeNumber(word, "reads", options.reads) ||
	    takeGid(word))
		return;
	if (!strcmp(word, "cx6"))
		options.generation = 6;
	else if (!strcmp(word, "cx7"))
		options.generation = 7;
	else if (!strcmp(word, "roce"))
		options.roce = true;
	else if (!strcmp(word, "ib"))
		options.roce = false;
	else if (!strcmp(word, "noatomics"))
		options.atomics = false;
	else if (!strcmp(word, "nomasked"))
		options.masked = false;
	else if (!strcmp(word, "only8"))
		options.narrow = false;
	else if (!strcmp(word, "norelaxed"))
		options.relaxed = false;
	else if (!strcmp(word, "nodmabuf"))
		options.dmabuf = false;
	else if (!strcmp(word, "nopeermem"))
		options.peermem = false;
	else
		refuse("MLX5DEV_PROFILE", word);
}

void optionsWords(const char *words, void (*take)(const char *word))
{
	char copy[512], *rest = NULL;

	snprintf(copy, sizeof(copy), "%s", words ? words : "");
	for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
		take(word);
}

static void adversaryWord(const char *word)
{
	options.adversary = true;
	if (!strcmp(word, "weakcqe"))
		options.weakCqe = true;
	else
		options.seed = strtoull(word, NULL, 0);
}

void optionsRead(void)
{
	const char *doorbell = variable("MLX5DEV_DOORBELL", "trap");

	snprintf(options.directory, sizeof(options.directory), "%s",
		 variable("MLX5DEV_DIR", "/tmp"));
	options.devices = atoi(variable("MLX5DEV_DEVICES", "1"));
	if (options.devices < 1 || options.devices > DEVICES_MAX)
		refuse("MLX5DEV_DEVICES", getenv("MLX5DEV_DEVICES"));
	for (int i = 0; i < DEVICES_MAX; i++)
		options.reads[i] = 16;
	optionsWords(variable("MLX5DEV_PROFILE", "cx7,ib"), profileWord);
	if (strcmp(doorbell, "trap") && strcmp(doorbell, "poll"))
		refuse("MLX5DEV_DOORBELL", doorbell);
	options.polling = !strcmp(doorbell, "poll");
	options.trace = atoi(variable("MLX5DEV_TRACE", "0"));
	options.slowNs = (uint32_t)atoi(variable("MLX5DEV_SLOW_US", "0")) * 1000;
	optionsWords(variable("MLX5DEV_ADVERSARY", ""), adversaryWord);
	if (options.adversary)
		fprintf(stderr, "mlx5dev: adversary, seed %llu, pid %d\n",
			(unsigned long long)options.seed, (int)getpid());
}

void trace(const char *format, ...)
{
	char text[256];
	va_list args;

	if (!options.trace)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "mlx5dev %d: %s\n", (int)getpid(), text);
}
