/*
 * A delegated cgroup v2, where there is one (`Delegate=yes`): each server gets a leaf of its own, and cgroup.kill ends
 * all in it at once.
 *
 * "Delegated" is what systemd marks so (the xattr user.delegate or trusted.delegate), and the cgroup of the service
 * whose main process this is; not what happens to be writable: other people's cgroups are not ours to divide. A
 * delegated cgroup allows no processes in inner nodes, so the daemon first moves into a leaf itself (PITFALLS
 * "Children"). Only cgroup.kill is used, so that hybrid set-ups without v2 controllers work as well.
 */
#pragma once

#include <stdint.h>

struct cgroup;

/* Finds the delegated cgroup of this process and moves the process into the leaf "daemon" there; NULL if there is
 * none, or it cannot be used. For the start of main, before anything is forked. */
struct cgroup *cgroup_new(void);
void cgroup_free(struct cgroup *cg);
/* Makes a leaf and returns its path (free() it), or NULL with errno. The name is for people; anything may be in it. */
char *cgroup_leaf_new(struct cgroup *cg, const char *name);

/* Limits what all in the leaf may use together. 0; or a negative errno: -ENOENT where there is no memory controller. */
int cgroup_set_memory_max(const char *leaf, int64_t bytes);
/* How often the kernel has ended a process of the leaf for want of memory; 0 if it cannot be told. */
unsigned cgroup_oom_kills(const char *leaf);

/* On a leaf's path. These three use no more than system calls. 0 or a negative errno. */
int cgroup_enter(const char *leaf); /* this process */
int cgroup_kill(const char *leaf);
/* -EBUSY as long as somebody dies in it. */
int cgroup_remove(const char *leaf);
