a, b :: Idle; // two
a -> [1] Null(1, "x") [2] -> b; /* end */
a [0-2] => [1,2,] b;
