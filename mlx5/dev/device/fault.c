/* SPDX-License-Identifier: BSD-3-Clause */
#include "fault.h"

#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mlx5/dev/host/control.h"
#include "event.h"
#include "mlx5/dev/host/options.h"
#include "mlx5/dev/engine/qp.h"
#include "mlx5/dev/engine/wqe.h"

enum { FAULTS = 32 };
enum action {
	ACTION_SYNDROME,
	ACTION_QP_ERROR,
	ACTION_PORT_DOWN,
	ACTION_PORT_UP,
	ACTION_REMOVE,
	ACTION_LOSE,
	ACTION_NO_MORE,
	ACTION_SLOW,
	ACTION_DROP,
};

/* One fault: its word, its effect, and its number. */
static const struct word {
	const char *name;
	enum action action;
	uint32_t value;
} words[] = {
	{"error", ACTION_SYNDROME, 0},
	{"access", ACTION_SYNDROME, SYNDROME_REMOTE_ACCESS},
	{"retry", ACTION_SYNDROME, SYNDROME_RETRY_EXCEEDED},
	{"rnr", ACTION_SYNDROME, SYNDROME_RNR_RETRY_EXCEEDED},
	{"qperror", ACTION_QP_ERROR, 0},
	{"portdown", ACTION_PORT_DOWN, 0},
	{"portup", ACTION_PORT_UP, 0},
	{"remove", ACTION_REMOVE, 0},
	{"lose", ACTION_LOSE, 0},
	{"no-pd", ACTION_NO_MORE, KIND_PD},
	{"no-mr", ACTION_NO_MORE, KIND_MR},
	{"no-umem", ACTION_NO_MORE, KIND_UMEM},
	{"no-uar", ACTION_NO_MORE, KIND_UAR},
	{"no-cq", ACTION_NO_MORE, KIND_CQ},
	{"no-qp", ACTION_NO_MORE, KIND_QP},
	{"slow", ACTION_SLOW, 0},
	{"drop", ACTION_DROP, 0},
};

struct fault {
	enum action action;
	uint32_t value;
	long at; /* the work request or doorbell, from 0 on; or -1: now */
	uint32_t qpn;
	int device;
};

static struct fault faults[FAULTS];
static int faultCount;
static uint32_t doorbells, made[KINDS];

static void portTurn(struct device *device, bool down)
{
	device->portDown = down;
	eventOfDevice(device, down ? IBV_EVENT_PORT_ERR : IBV_EVENT_PORT_ACTIVE, 1);
}

static void deviceRemove(struct device *device)
{
	device->removed = true;
	eventOfDevice(device, IBV_EVENT_DEVICE_FATAL, 0);
}

static void qpBreak(struct qp *qp)
{
	qpError(qp);
	eventOfQp(qp, IBV_EVENT_QP_FATAL);
}

/* `qpn` 0: all. */
static void breakQps(struct device *device, uint32_t qpn)
{
	for (struct qp *qp = device->qps; qp; qp = qp->nextQp)
		if (!qpn || qp->object.id == qpn)
			qpBreak(qp);
}

/* Faults that need no work request. */
static void doNow(const struct fault *fault)
{
	struct device *device = &devices[fault->device];

	switch (fault->action) {
	case ACTION_QP_ERROR:
		breakQps(device, fault->qpn);
		break;
	case ACTION_PORT_DOWN:
	case ACTION_PORT_UP:
		portTurn(device, fault->action == ACTION_PORT_DOWN);
		break;
	case ACTION_REMOVE:
		deviceRemove(device);
		break;
	case ACTION_SLOW:
		options.slowNs = fault->value * 1000;
		break;
	default:
		break;
	}
}

static const struct word *wordFind(const char *name, size_t length)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strlen(words[i].name) == length && !strncmp(words[i].name, name, length))
			return &words[i];
	return NULL;
}

/* NAME[=VALUE][@N][:QPN][/DEVICE] */
static bool parse(const char *text, struct fault *fault)
{
	size_t length = strcspn(text, "=@:/");
	const struct word *word = wordFind(text, length);
	char *rest = (char *)text + length;

	if (!word)
		return false;
	*fault = (struct fault){.action = word->action, .value = word->value, .at = -1};
	while (*rest) {
		char what = *rest;
		unsigned long number = strtoul(rest + 1, &rest, 0);

		if (what == '=' && (word->action != ACTION_NO_MORE))
			fault->value = (uint32_t)number;
		else if (what == '=' || what == '@')
			fault->at = (long)number;
		else if (what == ':')
			fault->qpn = (uint32_t)number;
		else if (what == '/' && number < DEVICES_MAX)
			fault->device = (int)number;
		else
			return false;
	}
	return true;
}

static bool waits(const struct fault *fault)
{
	return fault->at >= 0 || fault->action == ACTION_SYNDROME || fault->action == ACTION_LOSE ||
	       fault->action == ACTION_DROP || fault->action == ACTION_NO_MORE;
}

const char *faultTake(const char *text)
{
	struct fault fault;

	if (!parse(text, &fault))
		return "is not known: see mlx5/dev/README.md";
	if (!waits(&fault))
		doNow(&fault);
	else if (faultCount == FAULTS)
		return "is one too many";
	else
		faults[faultCount++] = fault;
	return NULL;
}

static void takeWord(const char *word)
{
	const char *reason = faultTake(word);

	if (!reason)
		return;
	fprintf(stderr, "mlx5dev: MLX5DEV_FAULT: \"%s\" %s\n", word, reason);
	exit(2);
}

void faultOpen(void)
{
	optionsWords(getenv("MLX5DEV_FAULT"), takeWord);
	controlOpen();
}

void faultControl(void)
{
	controlServe(faultTake);
}

static void forget(int at)
{
	faults[at] = faults[--faultCount];
}

static bool isFor(const struct fault *fault, const struct qp *qp)
{
	if (fault->action == ACTION_LOSE || fault->action == ACTION_NO_MORE)
		return false;
	if (fault->device != qp->object.device->index ||
	    (fault->qpn && fault->qpn != qp->object.id))
		return false;
	return fault->at < 0 || (uint32_t)fault->at == qp->started - 1;
}

/* A lost packet is sent again, if the requester has answers, an ACK timeout and retries. */
static uint8_t drop(const struct qp *qp)
{
	if (qp->isUnreliable)
		return FAULT_LOST;
	if (!qp->path.ackTimeout)
		return FAULT_NO_ANSWER;
	return qp->path.retries ? 0 : SYNDROME_RETRY_EXCEEDED;
}

static uint8_t apply(const struct fault *fault, struct qp *qp)
{
	if (fault->action == ACTION_SYNDROME)
		return (uint8_t)fault->value;
	if (fault->action == ACTION_DROP)
		return drop(qp);
	if (fault->action == ACTION_QP_ERROR)
		qpBreak(qp);
	else
		doNow(fault);
	return 0;
}

uint8_t faultOfRequest(struct qp *qp)
{
	for (int i = 0; i < faultCount; i++) {
		struct fault fault = faults[i];

		if (!isFor(&fault, qp))
			continue;
		forget(i);
		trace("fault: QP 0x%x, its work request %u", qp->object.id, qp->started - 1);
		return apply(&fault, qp);
	}
	return 0;
}

bool faultOfDoorbell(void)
{
	uint32_t number = doorbells++;

	for (int i = 0; i < faultCount; i++) {
		if (faults[i].action != ACTION_LOSE)
			continue;
		if (faults[i].at >= 0 && (uint32_t)faults[i].at != number)
			continue;
		forget(i);
		return true;
	}
	return false;
}

bool faultAtCreation(enum kind kind)
{
	uint32_t number = made[kind]++;

	for (int i = 0; i < faultCount; i++)
		if (faults[i].action == ACTION_NO_MORE && faults[i].value == kind &&
		    (long)number >= faults[i].at)
			return true;
	return false;
}
