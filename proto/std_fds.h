/*
 * Descriptors 0 to 2 of a program that was started without them. What it opens next would get their numbers, and what it prints would then go
 * into a socket or a file of its own.
 */
#pragma once

/* First thing in main(): opens those that are closed so that they fail as a closed one does, reading and writing. */
void std_fds_reserve(void);
