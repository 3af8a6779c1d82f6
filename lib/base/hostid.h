/* SPDX-License-Identifier: BSD-3-Clause */
/* hostid.h - what tells this host from others: equal for same kernel, name and network namespace */
#ifndef GIN_LIB_HOSTID_H
#define GIN_LIB_HOSTID_H

#include <stdint.h>

uint64_t hostId(void);

#endif
