/* SPDX-License-Identifier: BSD-3-Clause */
/* utility.h - a path that programs include: core.h has its declarations */
#include "core.h"
