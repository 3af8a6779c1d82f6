/* SPDX-License-Identifier: BSD-3-Clause */
/* root.c - the root's thread: takes connections, lets in who knows the key */
#include "root.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "../lib/clock.h"
#include "../lib/handshake.h"
#include "../lib/hostid.h"
#include "../lib/log.h"
#include "../lib/random.h"
#include "../lib/thread.h"
#include "root_group.h"

#define SILENT_SECONDS 5 /* a stranger who connects and says nothing is sent away */
#define BEGUN_SECONDS 1	 /* for the rest of a message: it comes in one piece */
#define TICK_MS 250
#define RANKS_MOST (1u << 20)

struct root {
	int listener, poll;
	int once;
	uint8_t key[SIPHASH_KEY_BYTES];
	struct guest *guests;
	struct rootGroups groups;
};

static void refuse(struct guest *guest)
{
	logWrite(logWarn, "bootstrap: refused a connection that does not know the key");
	guestDrop(guest);
}

static int watch(const struct root *root, int fd, struct guest *guest)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = guest};

	return epoll_ctl(root->poll, EPOLL_CTL_ADD, fd, &event);
}

static void addGuest(struct root *root, int fd)
{
	struct guest *guest = calloc(1, sizeof(*guest));

	if (!guest) {
		close(fd);
		return;
	}
	*guest = (struct guest){
		.fd = fd, .since = clockNow(), .next = root->guests, .at = &root->guests};
	if (root->guests)
		root->guests->at = &guest->next;
	root->guests = guest;
	if (handshakeChallenge(fd, guest->challenge, clockNow()) || watch(root, fd, guest))
		guestDrop(guest);
}

/* Without a descriptor left it waits a little: those who are served free theirs. */
static void acceptGuest(struct root *root)
{
	int fd = socketAccept(root->listener, clockNow());

	if (fd >= 0) {
		addGuest(root, fd);
		return;
	}
	if (errno != EMFILE && errno != ENFILE)
		return; /* whoever it was has gone again */
	logWrite(logWarn, "bootstrap: no file descriptor left for the ranks that come: raise "
			  "ulimit -n where rank 0 runs");
	usleep(TICK_MS * 1000);
}

static int validRequest(struct guest *guest)
{
	struct rootRequest *request = &guest->request;

	request->name[sizeof(request->name) - 1] = '\0';
	request->entry.host[sizeof(request->entry.host) - 1] = '\0';
	request->entry.refusal[sizeof(request->entry.refusal) - 1] = '\0';
	return request->rank == guest->rank && request->nRanks <= RANKS_MOST &&
	       request->rank < request->nRanks && request->parent < request->nRanks;
}

/* Something has arrived from `guest`, or it has gone. */
static void serve(struct root *root, struct guest *guest)
{
	uint64_t deadline = clockNow() + BEGUN_SECONDS * SECOND;

	if (guest->state == guestWaits) {
		groupsLost(&root->groups, guest);
	} else if (guest->state == guestGreets) {
		guest->state = guestAsks;
		if (handshakeAnswer(guest->fd, root->key, guest->challenge, &guest->rank, deadline))
			refuse(guest);
	} else if (socketReceive(guest->fd, &guest->request, sizeof(guest->request), deadline) ||
		   !validRequest(guest)) {
		refuse(guest);
	} else {
		groupsAdd(&root->groups, guest);
	}
}

static void dropSilent(struct root *root, uint64_t now)
{
	for (struct guest *guest = root->guests, *next; guest; guest = next) {
		next = guest->next;
		if (guest->state != guestWaits && now > guest->since + SILENT_SECONDS * SECOND)
			refuse(guest);
	}
}

/* One event a turn: what it does may free other guests. */
static void turn(struct root *root)
{
	int idle = !root->guests && !root->groups.list;
	struct epoll_event event;
	int ready = epoll_wait(root->poll, &event, 1, idle ? -1 : TICK_MS);

	if (ready > 0 && event.data.ptr)
		serve(root, event.data.ptr);
	else if (ready > 0)
		acceptGuest(root);
	uint64_t now = clockNow();
	dropSilent(root, now);
	groupsTick(&root->groups, now);
}

static void freeRoot(struct root *root)
{
	groupsFree(&root->groups);
	while (root->guests)
		guestDrop(root->guests);
	if (root->poll >= 0)
		close(root->poll);
	close(root->listener);
	free(root);
}

static void *rootThread(void *arg)
{
	struct root *root = arg;

	while (!root->once || !root->groups.done)
		turn(root);
	freeRoot(root);
	return NULL;
}

int rootStart(int listener, const uint8_t key[SIPHASH_KEY_BYTES], int once, unsigned seconds)
{
	struct root *root = calloc(1, sizeof(*root));
	pthread_t thread;

	if (!root) {
		close(listener);
		return -1;
	}
	*root = (struct root){.listener = listener, .once = once, .groups = {.seconds = seconds}};
	memcpy(root->key, key, sizeof(root->key));
	root->poll = epoll_create1(EPOLL_CLOEXEC);
	if (root->poll < 0 || watch(root, listener, NULL))
		goto failed;
	errno = threadStart(&thread, "gin-root", rootThread, root);
	if (errno)
		goto failed;
	pthread_detach(thread);
	return 0;

failed:;
	int reason = errno;
	freeRoot(root);
	errno = reason;
	return -1;
}

int rootMake(struct rootContact *contact, const char *ifname, int once, unsigned seconds, char *why)
{
	struct rootContact made = {.magic = ROOT_MAGIC, .hostId = hostId()};
	int listener = socketListen(&made.port);

	if (listener < 0 || randomBytes(made.key, sizeof(made.key)) ||
	    rootStart(listener, made.key, once, seconds)) {
		snprintf(why, BOOTSTRAP_WHY, "cannot listen for the other ranks: %m");
		return -1;
	}
	made.addresses = (uint16_t)socketAddresses(ifname, made.address, ROOT_ADDRESSES);
	*contact = made;
	return 0;
}
