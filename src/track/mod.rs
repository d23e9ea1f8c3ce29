//! FLOOR 2: detections to tracks. Pure: no threads, no clock, no I/O but the MOTChallenge text format's parser and writer.
