#include "ipc/batch.h"

#include <stdlib.h>

#include "ipc/session.h"
#include "xalloc.h"

struct batch {
	struct session *session;
	unsigned holders;
	struct buf answers;
};

struct batch *batch_new(struct session *session)
{
	struct batch *batch = xnew(struct batch);
	batch->session = session;
	batch->holders = 1;
	return batch;
}

void batch_enter(struct batch *batch)
{
	batch->holders++;
}

/* A line without its end. */
static void add(struct batch *batch, const struct buf *answer)
{
	if (buf_failed(answer))
		batch->answers.error = answer->error;
	buf_add_char(&batch->answers, batch->answers.len ? ',' : '[');
	buf_add(&batch->answers, answer->data, answer->len - 1);
}

void batch_leave(struct batch *batch, const struct buf *answer)
{
	if (!batch)
		return;
	if (answer)
		add(batch, answer);
	if (--batch->holders > 0)
		return;
	if (batch->answers.len) {
		buf_add_text(&batch->answers, "]\n");
		session_send(batch->session, &batch->answers);
	}
	buf_done(&batch->answers);
	free(batch);
}
