;; Logs a line each 5 ms, whatever its configuration is.
(module
  (import "superfluid_v1" "timer_set" (func $timer_set (param i64) (result i32)))
  (import "superfluid_v1" "write" (func $write (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 1024) "still here")
  (func (export "sf_batch") (result i32) (i32.const 4096))
  (func (export "sf_init") (result i32) (call $timer_set (i64.const 1)))
  (func (export "sf_process") (param $count i32) (param $now i64))
  (func (export "sf_timer") (param $now i64)
    (drop (call $write (i32.const 10) (i32.const 1024) (i32.const 10)))
    (drop (call $timer_set (i64.add (local.get $now) (i64.const 5000000))))))
