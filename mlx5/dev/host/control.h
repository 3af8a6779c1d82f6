/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.h - the socket `control.PID` in options.directory: a word in, "ok" or a sentence out
 */
#ifndef MLX5DEV_CONTROL_H
#define MLX5DEV_CONTROL_H

void controlOpen(void);

/* Answers all words that have come; `take` returns the error in a word, or NULL. */
void controlServe(const char *(*take)(const char *word));

#endif
