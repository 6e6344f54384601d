"""The cost of an extraction: bar P5, measured on the whole service with an instant model.

    python -m benchmarks.throughput [--transcripts N] [--services N] [--json FILE]

One run starts everything fresh in a temporary folder: the embedded Postgres, the extraction
service as a process (or several), a model server as a process, and a floor to compare with. Then
it measures, in this order:

- **throughput**: transcripts of 20 messages over many users through `SubmitTranscripts`, with a
  bounded number unfinished at a time; transcripts per second, CPU per transcript of the service,
  of Postgres and of the model server apart, calls of the model, time from acceptance to the end;
- **memory** of the service during that load (`--transcripts 20000` for the long form);
- **idle latency**: from acceptance to the start of the job when nothing else is waiting;
- **floor**: what a process must spend at least that takes a call over gRPC, stores it in one
  INSERT and makes two HTTP calls by hand.

The modules: `measure` (one run), `driver` (what is sent, and who sends it), `report` (results, bars
and tables).
"""
