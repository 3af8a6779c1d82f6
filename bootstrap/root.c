/* SPDX-License-Identifier: BSD-3-Clause */
/* root.c - the root's thread: takes connections, lets in who knows the key */
#include "root.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/forkguard.h"
#include "lib/base/auth.h"
#include "lib/base/identity.h"
#include "lib/base/log.h"
#include "lib/base/random.h"
#include "lib/base/thread.h"
#include "root_group.h"

#define SILENT_SECONDS 5 /* a stranger who connects and says nothing is sent away */
#define TICK_MS 250

struct root {
	int listener, poll;
	int once;
	uint8_t key[AUTH_KEY_BYTES];
	struct guest *guests;
	struct rootGroups groups;
};

static void refuse(struct guest *guest)
{
	char from[64];

	socketPeer(guest->fd, from, sizeof(from));
	logWrite(logWarn, "bootstrap: refused %s, which does not know the key (GIN_SECRET)", from);
	guestDrop(guest);
}

/* It is not ready before so many bytes are there: nobody waits for the rest of a message. */
static int expectBytes(const struct guest *guest, int bytes)
{
	return setsockopt(guest->fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
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
	*guest = (struct guest){.fd = fd,
				.poll = root->poll,
				.since = clockNow(),
				.next = root->guests,
				.at = &root->guests};
	if (root->guests)
		root->guests->at = &guest->next;
	root->guests = guest;
	if (expectBytes(guest, AUTH_ANSWER_BYTES) ||
	    authChallenge(fd, guest->challenge, clockNow()) || watch(root, fd, guest))
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
	return request->rank == guest->rank && request->nRanks <= ROOT_RANKS &&
	       request->rank < request->nRanks && request->parent <= request->rank;
}

static void greet(const struct root *root, struct guest *guest)
{
	guest->state = guestAsks;
	if (authAnswer(guest->fd, root->key, guest->challenge, &guest->rank, clockNow()) ||
	    expectBytes(guest, sizeof(guest->request)))
		refuse(guest);
}

static void listenTo(struct root *root, struct guest *guest)
{
	if (!socketReceive(guest->fd, &guest->request, sizeof(guest->request), clockNow()) &&
	    validRequest(guest)) {
		groupsAdd(&root->groups, guest);
		return;
	}
	logWrite(logWarn, "bootstrap: rank %u left, or asked for what makes no sense", guest->rank);
	guestDrop(guest);
}

/* Something has arrived from `guest`, or it has gone. */
static void serve(struct root *root, struct guest *guest)
{
	if (guest->state == guestWaits)
		groupsLost(&root->groups, guest);
	else if (guest->state == guestGreets)
		greet(root, guest);
	else
		listenTo(root, guest);
}

/* Whose message is there and was not read yet is not silent: this process may have been stopped. */
static int isSilent(const struct guest *guest, uint64_t now)
{
	struct pollfd ready = {.fd = guest->fd, .events = POLLIN};

	return guest->state != guestWaits && now > guest->since + SILENT_SECONDS * SECOND &&
	       poll(&ready, 1, 0) == 0;
}

static void dropSilent(struct root *root, uint64_t now)
{
	for (struct guest *guest = root->guests, *next; guest; guest = next) {
		next = guest->next;
		if (isSilent(guest, now))
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
	shutdown(root->listener, SHUT_RDWR); /* as in guestDrop() */
	forkGuardClose(root->listener);
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

int rootStart(int listener, const uint8_t key[AUTH_KEY_BYTES], int once, unsigned seconds)
{
	struct root *root = calloc(1, sizeof(*root));
	pthread_t thread;

	if (!root) {
		close(listener);
		return -1;
	}
	*root = (struct root){.listener = listener, .once = once, .groups = {.seconds = seconds}};
	forkGuard(listener);
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
	struct rootContact made = {.magic = ROOT_MAGIC, .hostId = identityHostId()};
	int listener = socketListen(&made.port);

	int failed = listener < 0 || randomBytes(made.key, sizeof(made.key));
	if (failed && listener >= 0)
		close(listener);
	if (failed || rootStart(listener, made.key, once, seconds)) {
		snprintf(why, BOOTSTRAP_WHY, "cannot listen for the other ranks: %m");
		return -1;
	}
	made.addresses = (uint16_t)socketAddresses(ifname, made.address, ROOT_ADDRESSES);
	*contact = made;
	return 0;
}
