/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.h - a path that programs include: core.h has device communicators */
#include "core.h"
