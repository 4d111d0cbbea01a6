# 3 "file"
x/y :: Idle(a, 'b)', "\")\<41 // )
>\x41", $(f $x),
#line 9
c);
