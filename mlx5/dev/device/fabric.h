/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.h - shared state of the processes on a set of devices: unique numbers, and the process of
 * each queue pair
 */
#ifndef MLX5DEV_FABRIC_H
#define MLX5DEV_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "device.h"

/* Maps the file `fabric` in options.directory. */
void fabricOpen(void);

uint32_t fabricNewQpn(int device);
void fabricForgetQpn(int device, uint32_t qpn);
/* All of this process. */
void fabricForget(void);

/* The process of a queue pair, or 0. */
int fabricOwner(int device, uint32_t qpn);

/* Keys, cqns, ... of one device are of one process each: an id of another process is wrong. */
uint32_t fabricNewId(int device, enum kind kind);

/* Addresses of a device, and the device at an address (-1: none). */
uint16_t fabricLid(int device);
uint64_t fabricGuid(int device);
void fabricMac(int device, uint8_t mac[6]);
/* Index 0 is of the guid; with RoCE 0 and 1 are, 2 and 3 are IPv4, the odd ones v2. */
bool fabricGid(int device, uint32_t index, uint8_t gid[16]);
int fabricByLid(uint16_t lid);
int fabricByGid(const uint8_t gid[16]);

#endif
