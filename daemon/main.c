/*
 * mcpd: start-up and shutdown. Wires the floors together; everything else happens below (ARCHITECTURE "House rules").
 *
 * Start: the process host first, while there is no thread and little memory; then the configuration, the lock and the
 * socket, so that a daemon that cannot run says why at once and touches nothing; then the servers; then READY. Shutdown
 * is the ordinary close path: no new clients, no new calls, calls in flight get their time, servers end with all of
 * their trees, clients get what is unsent.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "activity.h"
#include "config/config.h"
#include "ipc/ipc.h"
#include "ipc/listener.h"
#include "ipc/reload.h"
#include "log.h"
#include "loop/curl_loop.h"
#include "loop/loop.h"
#include "manager/manager.h"
#include "manager/server.h"
#include "mcpd-version.h"
#include "options.h"
#include "proto/socket_path.h"
#include "proto/std_fds.h"
#include "router/router.h"
#include "service.h"
#include "transport/process.h"
#include "xalloc.h"

/* PROTOCOL daemon/shutdown: what calls in flight get; and what a client gets to read its last answers. */
#define DRAIN_MS 5000
#define LAST_ANSWERS_MS 1000
/* And how long the processes of a server may take to be gone after SIGKILL, before they are given up. */
#define KILL_MS 15000

extern char **environ;

/* The one struct of the daemon (house rule 4). */
struct app {
	struct options options;
	struct process_host *host;
	struct loop *loop;
	struct reload *reload;
	struct curl_loop *curl;
	struct manager *manager;
	struct router *router;
	struct ipc *ipc;
	struct listener *listener;
	struct activity *activity;
	struct service_watchdog *watchdog;
	struct loop_signal *signals[3];
	char *socket_path;
	char *cache_dir;
	const char *journal; /* its socket, NULL: stderr goes elsewhere */
	char *unit;          /* of the service manager that runs us, or NULL */
	int inherited_fd;    /* the socket that it handed in, -1: none */
	int64_t started_ms;
	bool stopping, stopping_fast;
};

/* --- the log --- */

/* A name that was checked, or NULL for the default. */
static void set_log_level(const struct app *app, const char *name)
{
	enum log_level level = LOG_LEVEL_INFO;
	if (name)
		log_level_find(name, &level);
	log_init(level, app->journal);
}

static void on_config_loaded(void *arg, const struct config *config)
{
	struct app *app = arg;
	set_log_level(app, app->options.log_level ? app->options.log_level : config->log_level);
}

/* --- signals and the end --- */

static void on_clients_gone(void *arg)
{
	struct app *app = arg;
	loop_stop(app->loop);
}

static void on_manager_down(void *arg)
{
	struct app *app = arg;
	ipc_close(app->ipc, LAST_ANSWERS_MS, on_clients_gone, app);
}

/* Calls in flight, the gentle ends of the most patient server, its end by force, the last answers. */
static int64_t longest_stop_ms(const struct app *app)
{
	const struct config *config = manager_config(app->manager);
	int64_t grace_ms = 0;
	for (size_t i = 0; i < config->n_servers; i++)
		if (config->servers[i]->grace_ms > grace_ms)
			grace_ms = config->servers[i]->grace_ms;
	return DRAIN_MS + 2 * grace_ms + KILL_MS + LAST_ANSWERS_MS;
}

static void stop(void *arg)
{
	struct app *app = arg;
	if (app->stopping)
		return;
	app->stopping = true;
	log_info("shutting down");
	service_stopping(longest_stop_ms(app));
	activity_stop(app->activity);
	listener_stop(app->listener);
	ipc_stop_calls(app->ipc);
	manager_shutdown(app->manager, DRAIN_MS, on_manager_down, app);
}

/* Whoever connects from here on is not lost: see listener.h. */
static void on_idle(void *arg)
{
	struct app *app = arg;
	if (app->stopping || listener_has_waiting(app->listener))
		return;
	log_info("no client is connected and no server is running: leaving until the next connection");
	stop(app);
}

static void on_change(void *arg)
{
	struct app *app = arg;
	if (app->activity)
		activity_changed(app->activity);
}

static void on_stop_signal(void *arg)
{
	struct app *app = arg;
	if (!app->stopping) {
		stop(app);
	} else if (!app->stopping_fast) {
		app->stopping_fast = true;
		log_info("shutting down without waiting for calls in flight");
		manager_shutdown(app->manager, 0, on_manager_down, app);
	}
}

static void on_reload_signal(void *arg)
{
	struct app *app = arg;
	if (app->stopping)
		return;
	service_reloading();
	reload_run(app->reload, app->manager, NULL);
	service_ready();
	activity_changed(app->activity);
}

static bool start_signals(struct app *app)
{
	static const struct {
		int signo;
		loop_fn *fn;
	} wanted[] = { { SIGTERM, on_stop_signal }, { SIGINT, on_stop_signal }, { SIGHUP, on_reload_signal } };
	for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
		app->signals[i] = loop_signal_new(app->loop, wanted[i].signo, wanted[i].fn, app);
		if (!app->signals[i])
			return false;
	}
	return true;
}

/* --- the start --- */

/* $XDG_CACHE_HOME/mcpd, else ~/.cache/mcpd; NULL if neither is known: nothing is then cached on disk. */
static char *find_cache_dir(void)
{
	const char *cache = getenv("XDG_CACHE_HOME");
	const char *home = getenv("HOME");
	if (cache && *cache == '/')
		return xasprintf("%s/mcpd", cache);
	if (home && *home == '/')
		return xasprintf("%s/.cache/mcpd", home);
	log_warning("neither XDG_CACHE_HOME nor HOME is set to an absolute path: tool lists are not kept on disk");
	return NULL;
}

/* The path of a socket that was handed in, NULL if it has none that clients could use. */
static char *path_of_socket(int fd)
{
	struct sockaddr_un address = { 0 };
	socklen_t len = sizeof address;
	if (getsockname(fd, (struct sockaddr *)&address, &len) < 0 || address.sun_path[0] != '/')
		return NULL;
	return xstrndup(address.sun_path, sizeof address.sun_path);
}

static int find_socket_path(struct app *app)
{
	char *problem = NULL;
	app->socket_path = app->inherited_fd >= 0 ? path_of_socket(app->inherited_fd) : NULL;
	if (app->socket_path)
		return EXIT_STATUS_OK;
	int r = socket_path_find(app->options.socket, (const char *const *)environ, &app->socket_path, &problem);
	if (r == 0)
		return EXIT_STATUS_OK;
	log_error("%s", problem ? problem : "out of memory");
	free(problem);
	return EXIT_STATUS_FAILED;
}

static int start_listening(struct app *app)
{
	int status = find_socket_path(app);
	if (status != EXIT_STATUS_OK)
		return status;
	const char *chosen = getenv("MCPD_SOCKET");
	struct listener_options options = {
		.path = app->socket_path,
		.standard = app->inherited_fd < 0 && !app->options.socket && !(chosen && *chosen),
		.inherited_fd = app->inherited_fd,
	};
	enum listener_failure failure;
	char *message;
	app->listener = listener_open(&options, &failure, &message);
	if (app->listener)
		return EXIT_STATUS_OK;
	log_error("%s", message);
	free(message);
	return failure == LISTENER_OTHER ? EXIT_STATUS_RUNNING : EXIT_STATUS_FAILED;
}

static void on_accept(void *arg, int fd)
{
	struct app *app = arg;
	ipc_accept(app->ipc, fd);
}

static void start_floors(struct app *app, struct config *config)
{
	app->cache_dir = find_cache_dir();
	app->router = router_new();
	struct manager_options manager_options = { app->loop, app->host, app->curl, app->cache_dir };
	app->manager = manager_new(&manager_options, router_manager_callbacks(), app->router);
	router_attach(app->router, app->loop, app->manager);
	struct ipc_options ipc_options = {
		.loop = app->loop,
		.manager = app->manager,
		.router = app->router,
		.reload = app->reload,
		.socket_path = app->socket_path,
		.version = MCPD_VERSION,
		.unit = app->unit,
		.activated = app->inherited_fd >= 0,
		.started_ms = app->started_ms,
		.on_shutdown = stop,
		.on_change = on_change,
		.arg = app,
	};
	app->ipc = ipc_new(&ipc_options);
	manager_configure(app->manager, config, NULL);
	listener_start(app->listener, app->loop, on_accept, app);
}

/*
 * A daemon that somebody starts by hand says what is wrong with its configuration, and ends. One whose socket is the
 * service manager's would be started again and again by the same waiting client, until the service manager gives the
 * socket up: it runs without servers, and tells clients what is wrong (daemon/status).
 */
static struct config *load_config(struct app *app)
{
	struct config *config = reload_load(app->reload);
	if (config)
		return config;
	if (app->inherited_fd < 0) {
		log_error("the configuration cannot be used; mend it, or check it with: mcpd --check-config");
		return NULL;
	}
	log_error("the configuration cannot be used, so there are no servers; mend it, then: mcpctl reload");
	return reload_nothing(app->reload);
}

/* The order matters: see above. */
static int start(struct app *app)
{
	app->started_ms = loop_now_ms();
	app->unit = service_find_unit();
	app->inherited_fd = service_take_socket();
	if (app->inherited_fd < -1)
		return EXIT_STATUS_FAILED;
	app->host = process_host_new();
	if (!app->host) {
		log_error("cannot prepare for starting servers: %s", strerror(errno));
		return EXIT_STATUS_FAILED;
	}
	struct reload_options reload_options = {
		.files = app->options.config_files,
		.must_exist = app->options.files_named,
		.environment = (const char *const *)environ,
		.on_loaded = on_config_loaded,
		.arg = app,
	};
	app->reload = reload_new(&reload_options);
	struct config *config = load_config(app);
	if (!config)
		return EXIT_STATUS_CONFIG;
	int status = start_listening(app);
	app->loop = status == EXIT_STATUS_OK ? loop_new() : NULL;
	if (status == EXIT_STATUS_OK && (!app->loop || !start_signals(app))) {
		log_error("cannot make the event loop: %s", strerror(errno));
		status = EXIT_STATUS_FAILED;
	}
	if (status != EXIT_STATUS_OK) {
		config_free(config);
		return status;
	}
	char *containers = xasprintf("%s.containers", app->socket_path);
	process_host_set_containers(app->host, containers);
	free(containers);
	process_host_attach(app->host, app->loop);
	app->curl = curl_loop_new(app->loop);
	start_floors(app, config);
	return EXIT_STATUS_OK;
}

static int run(struct app *app)
{
	if (manager_count(app->manager) == 0)
		log_info("no servers are configured in %s", app->options.config_files[0]);
	log_info("mcpd %s is listening on %s", MCPD_VERSION, app->socket_path);
	app->watchdog = service_watchdog_new(app->loop);
	service_ready();
	struct activity_options activity_options = {
		.loop = app->loop,
		.manager = app->manager,
		.reload = app->reload,
		.ipc = app->ipc,
		.activated = app->inherited_fd >= 0,
		.on_idle = on_idle,
		.arg = app,
	};
	app->activity = activity_new(&activity_options);
	if (app->options.background) {
		app->journal = service_detach();
		set_log_level(app, app->options.log_level ? app->options.log_level :
							    manager_config(app->manager)->log_level);
	}
	int r = loop_run(app->loop);
	if (r == 0)
		return EXIT_STATUS_OK;
	log_error("the event loop failed: %s", strerror(-r));
	return EXIT_STATUS_FAILED;
}

static void finish(struct app *app)
{
	service_watchdog_free(app->watchdog);
	activity_free(app->activity);
	app->activity = NULL;
	ipc_free(app->ipc);
	router_free(app->router);
	manager_free(app->manager);
	for (size_t i = 0; i < sizeof app->signals / sizeof app->signals[0]; i++)
		loop_signal_free(app->signals[i]);
	listener_free(app->listener);
	curl_loop_free(app->curl);
	process_host_free(app->host);
	loop_free(app->loop);
	reload_free(app->reload);
	free(app->socket_path);
	free(app->cache_dir);
	free(app->unit);
}

/*
 * House rule 7: the daemon's memory holds the secrets of all servers, which run as the same user. Not dumpable, it leaves
 * no core file, and neither its memory nor its environment can be read, or a debugger attached, without privileges
 * (PR_SET_DUMPABLE in prctl(2), proc(5), ptrace(2)). A program that is executed, as servers are, is dumpable again.
 * MCPD_DUMPABLE=1 is for those who debug the daemon itself.
 */
static void hide_memory(void)
{
	const char *dumpable = getenv("MCPD_DUMPABLE");
	if (!dumpable || strcmp(dumpable, "1") != 0)
		prctl(PR_SET_DUMPABLE, 0);
}

int main(int argc, char **argv)
{
	std_fds_reserve();
	hide_memory();
	struct app app = { .journal = service_journal() };
	int status;
	set_log_level(&app, NULL);
	bool serve = options_parse(&app.options, argc, argv, &status);
	set_log_level(&app, app.options.log_level);
	if (serve && app.options.print) {
		app.options.print(stdout);
		status = EXIT_STATUS_OK;
	} else if (serve && app.options.check_config) {
		status = config_check(app.options.config_files, app.options.files_named, stdout) == 0 ?
				 EXIT_STATUS_OK :
				 EXIT_STATUS_FAILED;
	} else if (serve) {
		signal(SIGPIPE, SIG_IGN);
		status = start(&app);
		if (status == EXIT_STATUS_OK)
			status = run(&app);
		finish(&app);
	}
	options_done(&app.options);
	return status;
}
