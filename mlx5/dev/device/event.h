/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event.h - descriptors in which programs wait for events: completion channels, asynchronous events
 */
#ifndef MLX5DEV_EVENT_H
#define MLX5DEV_EVENT_H

#include "device.h"

/* The descriptor for the program, or -1. `context` is the uverbs descriptor. */
int eventOpenAsync(int context, struct device *device);
void eventCloseAsync(int context);
int eventOpenChannel(void);
/* The program closed this descriptor; whether it was a channel's. */
bool eventClosedChannel(int fd);
struct channel *eventChannel(int fd);

void eventCompletion(struct cq *cq);
/* An IBV_EVENT_; element is a user handle or a port. */
void eventOfDevice(struct device *device, uint32_t type, uint64_t element);
void eventOfQp(struct qp *qp, uint32_t type);
void eventOfSrq(struct srq *srq, uint32_t type);

/* It goes: what the program has not read of its events is taken back. How many it read. */
uint32_t eventsOfCq(struct cq *cq);
uint32_t eventsOfQp(struct qp *qp);
uint32_t eventsOfSrq(struct srq *srq);

#endif
