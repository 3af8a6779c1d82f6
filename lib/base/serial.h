/* SPDX-License-Identifier: BSD-3-Clause */
/* serial.h - where serial numbers begin */
#ifndef GIN_LIB_SERIAL_H
#define GIN_LIB_SERIAL_H

/*
 * Serial numbers of 32 bits start shortly before they wrap around, so that tests cross the point
 * that a job reaches after hours.
 */
#define FIRST_SERIAL (0u - 200u)

#endif
