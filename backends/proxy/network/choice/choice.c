/* SPDX-License-Identifier: BSD-3-Clause */
/* choice.c - GIN_TRANSPORT, and the network that a rank looks for: the named one, verbs, or ofi */
#include "choice.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/log.h"
#include "rails.h"

/* One name of the list: its length. */
static size_t nameAt(const char *list)
{
	return strcspn(list, ",");
}

static int isPlain(const char *name, size_t length)
{
	return length && length <= NETWORK_NAME_MOST &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789") >= length;
}

/* Returns 0 if a second network is named. */
static int addName(struct transportChoice *choice, const char *name, size_t length)
{
	if (length == 3 && !strncmp(name, "ipc", length)) {
		choice->allowsIpc = 1;
		return 1;
	}
	if (choice->name[0])
		return 0;
	snprintf(choice->name, sizeof(choice->name), "%.*s", (int)length, name);
	choice->prefersNetwork = !choice->allowsIpc;
	choice->searches = searchAnyway;
	return 1;
}

int networkChoiceRead(const char *list, struct transportChoice *choice)
{
	*choice = (struct transportChoice){.allowsIpc = 1, .searches = searchMissing, .isOpen = 1};
	if (*list)
		*choice = (struct transportChoice){.searches = searchNever};
	for (size_t length; *list; list += length + (list[length] == ',')) {
		length = nameAt(list);
		if (isPlain(list, length) && addName(choice, list, length))
			continue;
		return 0;
	}
	return 1;
}

/* Returns 0, and why, if GIN_TRANSPORT is wrong. */
static int readChoice(struct transportChoice *choice, char *why)
{
	int isRight = networkChoiceRead(paramText(paramTransport), choice);

	if (!isRight)
		snprintf(why, BACKEND_WHY,
			 "GIN_TRANSPORT: must be ipc, the name of a network, or both with a comma");
	return isRight;
}

/* Loads the plug-in that GIN_TRANSPORT names: if that fails, the proxy works for no pair. */
static int loadNamed(const struct transportChoice *choice, char *why)
{
	char reason[BACKEND_WHY];

	if (networkPlugin(choice->name, reason))
		return 1;
	snprintf(why, BACKEND_WHY, "GIN_TRANSPORT=%s: %.120s", paramText(paramTransport), reason);
	logWrite(logWarn, "the proxy cannot be used: %s", why);
	return 0;
}

int networkProbe(struct proxyBlob *blob, char *why)
{
	unsigned threads = paramNumber(paramProxyThreads);
	struct transportChoice choice;

	why[0] = '\0';
	if (!readChoice(&choice, why))
		return 0;
	blob->lanes = (uint8_t)(threads ? threads : 1);
	blob->allowsIpc = (uint8_t)choice.allowsIpc;
	blob->prefersNetwork = (uint8_t)choice.prefersNetwork;
	blob->searches = (uint8_t)choice.searches;
	return choice.searches != searchAnyway || loadNamed(&choice, why);
}

static int severalHosts(const struct backendHost *host)
{
	for (int r = 1; r < host->nRanks; r++)
		if (!identitySameHost(&host->ranks[r], &host->ranks[0]))
			return 1;
	return 0;
}

/* A number for the kind of network, with which the description of a port begins. */
static uint8_t nicNetworkOf(const struct rdmaFound *found)
{
	uint8_t sum = 1;

	for (const char *c = found->why; *c && *c != ','; c++)
		sum = (uint8_t)(sum * 31 + *c);
	return sum;
}

void networkProbeNic(const struct backendHost *host, struct proxyBlob *blob)
{
	struct transportChoice choice;
	struct rdmaChoice nic;
	char why[RDMA_WHY];

	if (!readChoice(&choice, why) || (strcmp(choice.name, NETWORK_VERBS) && !choice.isOpen))
		return;
	if (choice.isOpen && !severalHosts(host))
		return;
	blob->hasNic = rdmaPortFind(host, 1, &nic, why) != NULL;
	if (blob->hasNic)
		blob->nicNetwork = nicNetworkOf(&nic.found);
	else
		logWrite(logInfo, "the proxy has no NIC: %s", why);
}

/* Have all ranks a NIC of one network? The answer is equal on all ranks; `why` says why not. */
static int allHaveNics(const struct backendHost *host, char *why)
{
	const struct proxyBlob first = proxyBlobOf(host, 0);

	for (int r = 0; r < host->nRanks; r++) {
		const struct proxyBlob blob = proxyBlobOf(host, r);
		if (blob.hasNic && blob.nicNetwork == first.nicNetwork)
			continue;
		snprintf(why, BACKEND_WHY, "rank %d has %s", r,
			 blob.hasNic ? "a NIC of another kind of network" : "no NIC");
		return 0;
	}
	return 1;
}

/* Without GIN_TRANSPORT. */
static void chooseName(const struct backendHost *host, struct transportChoice *choice, char *notNic)
{
	int isNic = allHaveNics(host, notNic);

	snprintf(choice->name, sizeof(choice->name), "%s", isNic ? NETWORK_VERBS : "ofi");
	logWrite(logInfo, "the proxy's network is %s%s%s", choice->name,
		 isNic ? "" : "; not verbs: ", notNic);
}

int networkChoose(const struct backendHost *host, struct transportChoice *choice, char *notNic)
{
	char why[BACKEND_WHY];

	notNic[0] = '\0';
	if (!readChoice(choice, why))
		return 0;
	if (choice->isOpen)
		chooseName(host, choice, notNic);
	return choice->name[0] != '\0';
}
