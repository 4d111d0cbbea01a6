require(library lib);
define($n 5, $m $n)
elementclass Pair { $a, K $k, __REST__ $r |
  input -> Queue($a) -> q :: Queue("$k") -> output;
  input [1] => (-> Null ->), { -> Paint(${m[0]}) -> } => [1, 2] output
|| input -> output || ... }
elementclass Other Pair;
a :: Idle => [0,1] Pair(1, K 2) => [0, 1, 2] b :: Idle;
{ L($v) } -> Discard;
