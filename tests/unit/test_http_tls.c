/* The HTTP transport and TLS: what is wrong with a certificate is told. Certificates are made here. */
#include "http_fixture.h"

#include <signal.h>
#include <sys/wait.h>

static void script_refuse(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	fake_respond(request->conn, "400 Bad Request", "", "");
}

static char tls_dir[] = "/tmp/mcpd-test-tls-XXXXXX";

static void run(const char *format, ...)
{
	char command[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	ck_assert_msg(system(command) == 0, "%s", command);
}

static void make_certificate(const char *name, const char *host, const char *days)
{
	run("cd %s && openssl req -newkey rsa:2048 -nodes -keyout %s.key -subj /CN=%s -out %s.csr 2>/dev/null && "
	    "printf 'subjectAltName=%s' > %s.ext && "
	    "openssl x509 -req -in %s.csr -CA ca.pem -CAkey ca.key -CAcreateserial %s -extfile %s.ext -out %s.pem 2>/dev/null",
	    tls_dir, name, name, name, host, name, name, days, name, name);
}

static void make_certificates(void)
{
	ck_assert_ptr_nonnull(mkdtemp(tls_dir));
	run("cd %s && openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -subj /CN=test-ca -days 2 -out ca.pem 2>/dev/null",
	    tls_dir);
	make_certificate("good", "DNS:localhost,IP:127.0.0.1", "-days 2");
	make_certificate("other", "DNS:other.example", "-days 2");
	/* Ended yesterday. */
	make_certificate("old", "DNS:localhost,IP:127.0.0.1", "-days -1");
}

static int free_port(void)
{
	struct fake_http server;
	fake_http_start(&server, 0, NULL, NULL);
	int port = server.port;
	fake_http_stop(&server);
	return port;
}

/* Without connecting, which would use up the one answer. */
static bool is_listening(int port)
{
	char line[512], wanted[40];
	bool found = false;
	FILE *f = fopen("/proc/net/tcp", "r");
	snprintf(wanted, sizeof(wanted), ":%04X 00000000:0000 0A", port);
	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, wanted) != NULL;
	if (f)
		fclose(f);
	return found;
}

/* Whatever is asked, the answer is that of request m-1. */
static pid_t start_tls_server(const char *certificate, int port)
{
	char command[1024];
	snprintf(
		command, sizeof(command),
		"cd %s && { printf 'HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: 40\\r\\n\\r\\n"
		"{\"jsonrpc\":\"2.0\",\"id\":\"m-1\",\"result\":{}}'; sleep 60; } | "
		"exec openssl s_server -quiet -accept 127.0.0.1:%d -cert %s.pem -key %s.key >/dev/null 2>&1",
		tls_dir, port, certificate, certificate);
	pid_t pid = fork();
	if (pid == 0) {
		setpgid(0, 0);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	for (int64_t until = loop_now_ms() + PATIENCE_MS; loop_now_ms() < until; usleep(20000))
		if (is_listening(port))
			return pid;
	ck_abort_msg("openssl s_server does not start");
	return -1;
}

static void check_tls(const char *certificate, const char *ca_file, bool insecure, const char *message)
{
	struct call c = { 0 };
	char url[64], ca[128];
	int port = free_port();
	pid_t pid = start_tls_server(certificate, port);
	fixture_start(NULL);
	snprintf(url, sizeof(url), "https://127.0.0.1:%d/mcp", port);
	snprintf(ca, sizeof(ca), "%s/%s", tls_dir, ca_file ? ca_file : "");
	fixture_make(url, &(struct http_options){
				  .timeout_ms = 30000, .ca_file = ca_file ? ca : NULL, .insecure = insecure });
	fixture_connect();
	ask_done(&c, "x");
	if (message) {
		ck_assert_int_eq(c.code, MCPD_E_TRANSPORT);
		ck_assert(!c.sent);
		ck_assert_msg(strstr(c.message, message) && strncmp(c.message, url, strlen(url)) == 0, "%s", c.message);
	} else {
		ck_assert_msg(c.code == 0, "%s", c.message);
	}
	call_free(&c);
	fixture_close();
	kill(-pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

START_TEST(TLS_failures_are_told_apart)
{
	if (system("openssl version >/dev/null 2>&1") != 0)
		return;
	make_certificates();
	check_tls("good", "ca.pem", false, NULL);
	check_tls("good", NULL, false, "the server's certificate is not trusted");
	check_tls("good", NULL, true, NULL);
	check_tls("other", "ca.pem", false, "the server's certificate is for another host");
	check_tls("old", "ca.pem", false, "the server's certificate has expired");
	check_tls("old", "ca.pem", true, NULL);
	check_tls("good", "missing.pem", false, "\"caFile\" cannot be read");
	run("rm -r %s", tls_dir);
}
END_TEST

START_TEST(TLS_towards_a_server_that_speaks_none)
{
	struct call c = { 0 };
	char url[64];
	fixture_start(script_refuse);
	snprintf(url, sizeof(url), "https://127.0.0.1:%d/mcp", fixture.server.port);
	fixture_make(url, NULL);
	fixture_connect();
	ask(&c, "x");
	UNTIL(fixture.server.accepted == 1);
	fake_send_text(&fixture.server.conns[0], "HTTP/1.1 400 Bad Request\r\n\r\n");
	UNTIL(c.done);
	ck_assert_msg(strstr(c.message, ": TLS failed ("), "%s", c.message);
	call_free(&c);
	fixture_close();
}
END_TEST

int main(void)
{
	return RUN_HTTP_TESTS("http_tls", NULL, 0, TLS_failures_are_told_apart, TLS_towards_a_server_that_speaks_none);
}
