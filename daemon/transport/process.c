#include "transport/process.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/event.h>

#include "log.h"
#include "transport/adoption.h"
#include "transport/cgroup.h"
#include "transport/container.h"
#include "transport/guard.h"
#include "transport/keeper.h"
#include "transport/order.h"
#include "transport/process_text.h"
#include "transport/removal.h"
#include "xalloc.h"

/* Milliseconds: until an order is tried again that the guard could not take; and how long SIGKILL may take before we
 * go on without. */
#define ORDER_AGAIN 5
#define KILL_MAY_TAKE 10000

struct process_host {
	struct guard guard;
	struct cgroup *cgroup; /* NULL: none */
	struct loop *loop;
	struct event *guard_event; /* its death */
	struct timer *order_timer;
	struct process *waiting, **waiting_end; /* whose orders the guard could not take yet */
	struct process *processes;              /* all of them */
	bool adopts;
	struct adoption *adoption;
	char *containers; /* directory; NULL: none */
	struct removals *removals;
};

enum process_state {
	PROCESS_WAITING, /* for the guard to take the order */
	PROCESS_ORDERED,
	PROCESS_RUNNING,
	PROCESS_EXITED, /* or never executed; something of the tree may be left */
	PROCESS_LOST,   /* its keeper was killed; what that left is being ended */
	PROCESS_GONE,   /* nothing is left */
};

enum end_step { END_NOT, END_BY_ITSELF, END_TERM, END_KILL, END_DONE };

struct process {
	struct process_host *host;
	struct loop *loop;
	struct process_callbacks callbacks;
	void *arg;
	char *name, *command, *searched_path, *cwd, *leaf;
	int64_t grace_ms;
	struct process *next_waiting;
	struct process *next, **at; /* of the host's */
	int order_fds[KEEPER_FDS];  /* until the order is out */
	int control;
	struct event *control_event;
	struct timer *timer; /* of the end's steps */
	struct task *task;   /* what may not be told inside a call */
	enum process_state state;
	enum end_step ending;
	pid_t pid, keeper; /* 0: not known, or none any more */
	int start_error;   /* to be told by the task */
	bool started_told, exit_told;
};

static void must(bool worked)
{
	if (worked)
		return;
	log_error("out of memory for an event");
	abort();
}

static void close_order(struct process *p)
{
	for (int i = 0; i < KEEPER_FDS; i++) {
		if (p->order_fds[i] >= 0)
			close(p->order_fds[i]);
		p->order_fds[i] = -1;
	}
}

/* --- telling --- */

static void tell_failure(struct process *p, int error, enum keeper_stage stage)
{
	if (p->started_told || p->ending != END_NOT)
		return;
	p->started_told = true;
	char *message = process_text_failure(p->command, p->searched_path, p->cwd, error, stage);
	p->callbacks.on_started(p->arg, message, !process_text_is_passing(error, stage));
	free(message);
}

static void tell_started(struct process *p)
{
	if (p->started_told || p->ending != END_NOT)
		return;
	p->started_told = true;
	p->callbacks.on_started(p->arg, NULL, false);
}

static void tell_exit(struct process *p, const char *how, bool signalled)
{
	if (p->exit_told || !p->started_told)
		return;
	p->exit_told = true;
	if (p->callbacks.on_exit)
		p->callbacks.on_exit(p->arg, how, signalled);
}

/* --- the end --- */

static void send_command(struct process *p, char command)
{
	if (p->control < 0)
		return;
	(void)!send(p->control, &command, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	/* One that was stopped would not read it. */
	if (p->keeper > 0)
		kill(p->keeper, SIGCONT);
}

/* Takes the next step of the end, and sets the clock for the one after it. */
static void step_end(struct process *p, enum end_step step)
{
	p->ending = step;
	if (step == END_TERM)
		send_command(p, KEEPER_TERM);
	if (step == END_KILL)
		send_command(p, KEEPER_KILL);
	timer_set(p->timer, loop_now_ms() + (step == END_KILL ? KILL_MAY_TAKE : p->grace_ms));
}

static void finish_end(struct process *p)
{
	p->ending = END_DONE;
	timer_cancel(p->timer);
	if (p->callbacks.on_ended)
		p->callbacks.on_ended(p->arg);
}

static void close_control(struct process *p)
{
	if (p->control_event)
		event_free(p->control_event);
	p->control_event = NULL;
	if (p->control >= 0)
		close(p->control);
	p->control = -1;
	p->keeper = 0;
}

/* Nothing of the tree is left. */
static void gone(struct process *p)
{
	close_control(p);
	p->state = PROCESS_GONE;
	p->pid = 0;
	if (p->ending != END_NOT && p->ending != END_DONE)
		finish_end(p);
}

static void on_end_timer(void *arg)
{
	struct process *p = arg;
	if (p->ending == END_KILL) {
		/* The keeper, if it still can, goes on without us. */
		log_server(LOG_LEVEL_WARNING, p->name, "its processes do not end, not even by SIGKILL");
		gone(p);
	} else {
		step_end(p, p->ending == END_BY_ITSELF ? END_TERM : END_KILL);
	}
}

static void remove_waiting(struct process_host *host, struct process *p)
{
	struct process **at = &host->waiting;
	while (*at != p)
		at = &(*at)->next_waiting;
	*at = p->next_waiting;
	if (!*at)
		host->waiting_end = at;
}

void process_end(struct process *p)
{
	if (p->ending != END_NOT)
		return;
	if (p->state == PROCESS_WAITING) {
		remove_waiting(p->host, p);
		close_order(p);
		close_control(p);
		p->state = PROCESS_GONE;
	}
	if (p->state == PROCESS_GONE) {
		p->ending = END_KILL;
		task_schedule(p->task);
		return;
	}
	step_end(p, p->state == PROCESS_EXITED || p->state == PROCESS_LOST ? END_TERM : END_BY_ITSELF);
}

/* --- what the keeper says --- */

static void on_exited(struct process *p, enum process_state now, const char *how)
{
	p->state = now;
	p->pid = 0;
	bool signalled = p->ending > END_BY_ITSELF;
	if (p->ending == END_BY_ITSELF)
		step_end(p, END_TERM);
	tell_exit(p, how, signalled);
}

static void on_event(struct process *p, const struct keeper_event *event)
{
	char how[96];
	p->keeper = event->keeper;
	switch (event->type) {
	case KEEPER_STARTED:
		p->state = PROCESS_RUNNING;
		p->pid = event->a;
		if (event->b)
			log_server(LOG_LEVEL_WARNING, p->name, "cannot enter its cgroup: %s", strerror(-event->b));
		tell_started(p);
		break;
	case KEEPER_FAILED:
		p->state = PROCESS_EXITED;
		tell_failure(p, event->a, (enum keeper_stage)event->b);
		break;
	case KEEPER_EXITED:
		process_text_exit(event->a, event->b, how, sizeof how);
		if (event->out_of_memory)
			strncat(how, ": out of memory (memoryMax)", sizeof how - strlen(how) - 1);
		on_exited(p, PROCESS_EXITED, how);
		break;
	case KEEPER_ENDED:
		if (event->a > 0)
			log_server(LOG_LEVEL_WARNING, p->name, "%d of its processes do not end", (int)event->a);
		gone(p);
		break;
	}
}

/* The socket ended before its time: the keeper was killed. Its guard has swept what it left before letting go of the
 * socket; but the guard may have been killed as well. */
static void on_keeper_lost(struct process *p)
{
	log_server(LOG_LEVEL_WARNING, p->name, "its mcpd-keeper was killed");
	if (p->leaf)
		cgroup_kill(p->leaf);
	close_control(p);
	adoption_sweep(p->host->adoption);
	bool ran = p->state == PROCESS_RUNNING, ordered = p->state == PROCESS_ORDERED;
	p->state = PROCESS_LOST;
	if (ran)
		on_exited(p, PROCESS_LOST, "killed with its mcpd-keeper");
	else if (ordered)
		tell_failure(p, EPIPE, KEEPER_STAGE_FORK);
}

/* A lost one whose leaf cannot be removed yet, or any; NULL if there is none. */
static struct process *find_lost(const struct process_host *host, bool in_leaf)
{
	struct process *p = host->processes;
	while (p && !(p->state == PROCESS_LOST && (!in_leaf || (p->leaf && cgroup_remove(p->leaf) == -EBUSY))))
		p = p->next;
	return p;
}

static bool on_swept(void *arg, bool last)
{
	struct process_host *host = arg;
	struct process *p = find_lost(host, true);
	if (p && !last) {
		cgroup_kill(p->leaf);
		return false;
	}
	while ((p = find_lost(host, false)))
		gone(p); /* may free it, and others */
	return true;
}

static void on_control(evutil_socket_t fd, short what, void *arg)
{
	(void)what;
	struct process *p = arg;
	struct keeper_event event;
	while (p->control >= 0) {
		ssize_t got = recv(fd, &event, sizeof event, MSG_DONTWAIT);
		if (got == (ssize_t)sizeof event)
			on_event(p, &event);
		else if (got < 0 && (errno == EINTR || errno == ECONNRESET))
			continue; /* a command that it did not read any more; its last words are behind that error */
		else if (got < 0 && errno == EAGAIN)
			return;
		else
			on_keeper_lost(p);
	}
}

/* --- the host --- */

static void on_guard(evutil_socket_t fd, short what, void *arg);

static void watch_guard(struct process_host *host)
{
	host->guard_event = event_new(loop_base(host->loop), host->guard.fd, EV_READ | EV_PERSIST, on_guard, host);
	must(host->guard_event && event_add(host->guard_event, NULL) == 0);
}

/* Starts a guard again, if there is none. 0 or a negative errno. */
static int ensure_guard(struct process_host *host)
{
	if (host->guard.fd >= 0)
		return 0;
	int error = guard_start(&host->guard);
	if (error)
		log_error("cannot start mcpd-guard: %s", strerror(-error));
	else
		watch_guard(host);
	return error;
}

static void on_guard(evutil_socket_t fd, short what, void *arg)
{
	(void)what;
	struct process_host *host = arg;
	char byte;
	if (recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* Its keepers live on and end their servers as ever; only new ones need a new guard. */
	log_warning("mcpd-guard was killed; a new one is started");
	event_free(host->guard_event);
	host->guard_event = NULL;
	guard_stop(&host->guard);
	adoption_guard_lost(host->adoption);
	ensure_guard(host);
}

static pid_t guard_pid(void *arg)
{
	const struct process_host *host = arg;
	return host->guard.pid;
}

static bool is_keeper(void *arg, pid_t pid)
{
	const struct process_host *host = arg;
	const struct process *p = host->processes;
	while (p && p->keeper != pid)
		p = p->next;
	return p;
}

/* --- the start --- */

static void on_task(void *arg)
{
	struct process *p = arg;
	if (p->start_error && p->ending == END_NOT)
		tell_failure(p, -p->start_error, *p->command ? KEEPER_STAGE_FORK : KEEPER_STAGE_EXEC);
	else if (p->state == PROCESS_GONE && p->ending == END_KILL)
		finish_end(p);
}

static void fail_start(struct process *p, int error)
{
	close_order(p);
	close_control(p);
	p->state = PROCESS_GONE;
	p->start_error = error;
	task_schedule(p->task);
}

/* Hands out what is waiting, as far as the guard takes it. */
static void send_orders(void *arg)
{
	struct process_host *host = arg;
	while (host->waiting) {
		struct process *p = host->waiting;
		int error = ensure_guard(host);
		if (!error)
			error = guard_order(&host->guard, p->order_fds);
		if (error == -EAGAIN) {
			timer_set(host->order_timer, loop_now_ms() + ORDER_AGAIN);
			return;
		}
		remove_waiting(host, p);
		if (error) {
			fail_start(p, error);
			continue;
		}
		close_order(p);
		p->state = PROCESS_ORDERED;
	}
}

/* A limit that nobody enforces is said to be none; servers/get tells it as well. */
static void limit_memory(const struct process *p, int64_t bytes)
{
	int error = bytes <= 0 ? 0 : p->leaf ? cgroup_set_memory_max(p->leaf, bytes) : -ENOENT;
	if (error)
		log_server(LOG_LEVEL_WARNING, p->name, "memoryMax is not enforced: %s",
			   error == -ENOENT ? "there is no delegated cgroup with a memory controller" :
					      strerror(-error));
}

static int prepare(struct process *p, const struct process_options *options)
{
	if (!*p->command)
		return -ENOENT;
	if (p->host->cgroup) {
		p->leaf = cgroup_leaf_new(p->host->cgroup, p->name);
		if (!p->leaf)
			log_server(LOG_LEVEL_WARNING, p->name, "cannot make a cgroup: %s", strerror(errno));
	}
	limit_memory(p, options->memory_max);
	struct container_run run = { 0 };
	bool is_container = container_run_find(p->command, options->args, p->host->containers, p->name, &run);
	struct order order = {
		.name = p->name,
		.command = p->command,
		.args = is_container ? (const char *const *)run.args : options->args,
		.env = options->env,
		.cwd = options->cwd,
		.leaf = p->leaf,
		.stop = (const char *const *)run.prefix,
		.cidfile = run.cidfile,
		.own_cidfile = run.recipe != NULL,
		.grace_ms = options->grace_ms,
	};
	int error = is_container ? container_run_note(&run) : 0;
	if (!error)
		error = order_write(&order, &p->order_fds[KEEPER_FD_ORDER], &p->searched_path, &p->cwd);
	container_run_done(&run);
	int pair[2];
	if (!error && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		error = -errno;
	if (error)
		return error;
	p->control = pair[0];
	p->order_fds[KEEPER_FD_CONTROL] = pair[1];
	p->control_event = event_new(loop_base(p->loop), p->control, EV_READ | EV_PERSIST, on_control, p);
	must(p->control_event && event_add(p->control_event, NULL) == 0);
	return 0;
}

struct process *process_start(struct process_host *host, struct loop *loop, const struct process_options *options,
			      const struct process_callbacks *callbacks, void *arg)
{
	struct process *p = xnew(struct process);
	p->host = host;
	p->loop = loop;
	p->callbacks = *callbacks;
	p->arg = arg;
	p->name = xstrdup(options->name);
	p->command = xstrdup(options->command);
	p->grace_ms = options->grace_ms;
	p->control = -1;
	p->timer = timer_new(loop, on_end_timer, p);
	p->task = task_new(loop, on_task, p);
	p->order_fds[KEEPER_FD_STDIN] = options->stdin_fd;
	p->order_fds[KEEPER_FD_STDOUT] = options->stdout_fd;
	p->order_fds[KEEPER_FD_STDERR] = options->stderr_fd;
	p->order_fds[KEEPER_FD_CONTROL] = p->order_fds[KEEPER_FD_ORDER] = -1;
	p->at = &host->processes;
	p->next = host->processes;
	if (p->next)
		p->next->at = &p->next;
	host->processes = p;
	int error = prepare(p, options);
	if (error) {
		fail_start(p, error);
		return p;
	}
	*host->waiting_end = p;
	host->waiting_end = &p->next_waiting;
	if (host->waiting == p)
		send_orders(host);
	return p;
}

pid_t process_pid(const struct process *p)
{
	return p->pid;
}

static void process_bury(void *object)
{
	struct process *p = object;
	free(p->name);
	free(p->command);
	free(p->searched_path);
	free(p->cwd);
	free(p->leaf);
	free(p);
}

void process_free(struct process *p)
{
	if (!p)
		return;
	assert(p->ending == END_DONE);
	timer_free(p->timer);
	task_free(p->task);
	*p->at = p->next;
	if (p->next)
		p->next->at = p->at;
	loop_bury(p->loop, p, process_bury);
}

struct process_host *process_host_new(void)
{
	struct process_host *host = xnew(struct process_host);
	host->waiting_end = &host->waiting;
	host->cgroup = cgroup_new();
	host->adopts = adoption_prepare();
	int error = guard_start(&host->guard);
	if (!error)
		return host;
	cgroup_free(host->cgroup);
	free(host);
	errno = -error;
	return NULL;
}

void process_abandon(struct process *p)
{
	if (p->state == PROCESS_WAITING)
		remove_waiting(p->host, p);
	close_order(p);
	close_control(p);
	p->ending = END_DONE;
	process_free(p);
}

void process_host_attach(struct process_host *host, struct loop *loop)
{
	static const struct adoption_callbacks callbacks = { guard_pid, is_keeper, on_swept };
	host->loop = loop;
	host->adoption = adoption_new(loop, host->adopts, &callbacks, host);
	host->order_timer = timer_new(loop, send_orders, host);
	watch_guard(host);
	if (host->containers)
		host->removals = removals_start(host, loop, host->containers);
}

void process_host_set_containers(struct process_host *host, const char *dir)
{
	free(host->containers);
	host->containers = xstrdup(dir);
}

void process_host_free(struct process_host *host)
{
	if (!host)
		return;
	removals_free(host->removals);
	assert(!host->processes);
	if (host->guard_event)
		event_free(host->guard_event);
	timer_free(host->order_timer);
	adoption_free(host->adoption);
	guard_stop(&host->guard);
	cgroup_free(host->cgroup);
	free(host->containers);
	free(host);
}

const char *process_host_method(const struct process_host *host)
{
	return host->cgroup ? "cgroup" : "subreaper";
}
