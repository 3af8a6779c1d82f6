/* SPDX-License-Identifier: BSD-3-Clause */
/* event.c - what the device reports by itself, in words */
#include <errno.h>

#include "mlx5/words.h"
#include "port.h"
#include "say.h"

static int isOfPort(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
		return 1;
	default:
		return 0;
	}
}

void errorText(unsigned syndrome, unsigned vendor, char *text)
{
	const char *words = syndromeText(syndrome);

	say(text, "%s (syndrome 0x%02x, the vendor's 0x%02x)",
	    words ? words : "it has no words for it", syndrome, vendor);
}

int portEvent(struct rdmaPort *p, char *text, int *lost)
{
	struct ibv_async_event event;

	if (ibv_get_async_event(p->context, &event)) {
		if (errno == EAGAIN || errno == EINTR)
			return 0;
		return sayErrno(text, errno, "events of %s", p->context->device->name);
	}
	const char *words = verbsEventText(event.event_type);
	*lost = event.event_type == IBV_EVENT_DEVICE_FATAL;
	if (isOfPort(event.event_type))
		say(text, "%s, port %d: %s", p->context->device->name, event.element.port_num,
		    words);
	else
		say(text, "%s: %s", p->context->device->name, words);
	ibv_ack_async_event(&event);
	return 1;
}
