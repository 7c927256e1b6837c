/* Checks and rigs of the C tests. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int failed = 0;

static void count_failure(void) {
  pthread_mutex_lock(&mutex);
  ++failed;
  pthread_mutex_unlock(&mutex);
}

int checks_failed(void) {
  int count;
  pthread_mutex_lock(&mutex);
  count = failed;
  pthread_mutex_unlock(&mutex);
  return count;
}

int check_that(int holds, char const* what, char const* file, int line) {
  if (holds) return 1;
  fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
  count_failure();
  return 0;
}

int check_status(ferry_status found, ferry_status wanted, char const* text, char const* call, char const* file,
                 int line) {
  if (found != wanted) {
    fprintf(stderr, "%s:%d: %s\n  gave %s, expected %s\n  last error: %s\n", file, line, call, ferry_status_name(found),
            ferry_status_name(wanted), ferry_last_error());
  } else if (wanted != FERRY_OK && strstr(ferry_last_error(), text) == NULL) {
    fprintf(stderr, "%s:%d: %s\n  expected in its words: %s\n  they are: %s\n", file, line, call, text,
            ferry_last_error());
  } else {
    return 1;
  }
  count_failure();
  return 0;
}

ferry_settings* host_settings(char const* policy, char const* budget) {
  ferry_settings* settings = NULL;
  OK(ferry_settings_create(&settings));
  OK(ferry_settings_set(settings, "FERRY_DEVICE", "host"));
  OK(ferry_settings_set(settings, "FERRY_DEVICE_BYTES", "16MiB"));
  OK(ferry_settings_set(settings, "FERRY_PINNED_BYTES", "16MiB"));
  OK(ferry_settings_set(settings, "FERRY_LINK_GBPS", "0"));
  OK(ferry_settings_set(settings, "FERRY_COMPUTE_THREADS", "1"));
  OK(ferry_settings_set(settings, "FERRY_CHECK_ORDER", "on"));
  OK(ferry_settings_set(settings, "FERRY_LOG", "error"));
  OK(ferry_settings_set(settings, "FERRY_POLICY", policy));
  OK(ferry_settings_set(settings, "FERRY_BUDGET", budget));
  return settings;
}

rig make_rig(char const* policy, char const* budget) {
  rig made = {NULL, NULL, NULL};
  ferry_settings* settings = host_settings(policy, budget);
  OK(ferry_device_create(settings, &made.device));
  OK(ferry_stream_create(made.device, "compute", &made.stream));
  OK(ferry_session_create(made.device, settings, &made.session));
  OK(ferry_settings_destroy(settings));
  return made;
}

void end_rig(rig* of) {
  char* mistakes = NULL;
  if (OK(ferry_device_order_violations(of->device, &mistakes)) && !CHECK(strcmp(mistakes, "") == 0)) {
    fprintf(stderr, "%s\n", mistakes);
  }
  OK(ferry_string_free(mistakes));
  OK(ferry_session_destroy(of->session));
  OK(ferry_stream_destroy(of->stream));
  OK(ferry_device_destroy(of->device));
}

typedef struct byte_job {
  unsigned char* memory;
  size_t bytes;
  unsigned char value;
  int* wrong;
} byte_job;

static byte_job* new_job(void const* memory, size_t bytes, unsigned char value, int* wrong) {
  byte_job* job = malloc(sizeof *job);
  if (job == NULL) abort();
  job->memory = (unsigned char*)memory;
  job->bytes = bytes;
  job->value = value;
  job->wrong = wrong;
  return job;
}

static int run_fill(void* user) {
  byte_job* job = user;
  memset(job->memory, job->value, job->bytes);
  free(job);
  return 0;
}

static int run_expect(void* user) {
  byte_job* job = user;
  size_t i;
  for (i = 0; i < job->bytes; ++i) *job->wrong += job->memory[i] != job->value;
  free(job);
  return 0;
}

void launch_fill(rig const* on, void* memory, size_t bytes, unsigned char value) {
  ferry_access touched;
  touched.address = memory;
  touched.bytes = bytes;
  touched.writes = 1;
  OK(ferry_stream_launch(on->stream, "fill", run_fill, new_job(memory, bytes, value, NULL), &touched, 1));
}

void launch_expect(rig const* on, void const* memory, size_t bytes, unsigned char value, int* wrong) {
  ferry_access touched;
  touched.address = memory;
  touched.bytes = bytes;
  touched.writes = 0;
  OK(ferry_stream_launch(on->stream, "expect", run_expect, new_job(memory, bytes, value, wrong), &touched, 1));
}

char* read_whole_file(char const* path) {
  FILE* file = fopen(path, "rb");
  char* text = NULL;
  long size;
  if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0) {
    if (file != NULL) fclose(file);
    check_that(0, path, __FILE__, __LINE__);
    return NULL;
  }
  rewind(file);
  text = malloc((size_t)size + 1);
  if (text != NULL && fread(text, 1, (size_t)size, file) == (size_t)size) {
    text[size] = '\0';
  } else {
    free(text);
    text = NULL;
    check_that(0, path, __FILE__, __LINE__);
  }
  fclose(file);
  return text;
}
