/* SPDX-License-Identifier: BSD-3-Clause */
/* near.h - how near a NIC is to a GPU, by their places in the system's tree of PCI devices */
#ifndef GIN_GDAKI_NEAR_H
#define GIN_GDAKI_NEAR_H

/*
 * How many bridges from the root on they share; more is nearer, 0: not known, or nothing. `sysfs`
 * is "/sys"; `nic` a name as "mlx5_0"; `gpu` a bus id as "0000:1B:00.0", in capitals or not.
 */
unsigned nearness(const char *sysfs, const char *nic, const char *gpu);

#endif
